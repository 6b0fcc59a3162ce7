// Which sets of image files stay in memory, and what is told of files that are left out.
#include "trainer/data/image_folders.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_dir.hpp"
#include "trainer/data/load.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

/// Three images for training and two held out, of 420 bytes each as samples.
class Folder {
 public:
  Folder() {
    for (const char* name : {"train/cat/1.png", "train/cat/2.png", "train/ant/x.png",
                             "test/cat/1.png", "test/ant/1.png"}) {
      fs::create_directories((path() / name).parent_path());
      fs::copy_file(fs::path(DDPRUN_CORPORA) / "png" / "colour", path() / name);
    }
  }
  void damage(const char* name) const { std::ofstream(path() / name) << "no image"; }
  [[nodiscard]] fs::path path() const { return directory_.path(); }
  [[nodiscard]] DataRequest request(std::uint64_t memory, bool skips_bad = false) const {
    return {.data = path().string(),
            .images = {.shape = {.height = 10, .width = 14, .channels = 3},
                       .threads = 2,
                       .skip_bad = skips_bad,
                       .memory = memory}};
  }

 private:
  test::TempDir directory_;
};
constexpr std::uint64_t kAll = 5 * 422;

TEST_CASE("sets that fit stay in memory, and larger ones have the same content as files") {
  const Folder folder;
  const TrainAndTest kept = load_data(folder.request(kAll));
  const TrainAndTest files = load_data(folder.request(kAll - 1));
  CHECK(kept.train->is_in_memory());
  CHECK(kept.test->is_in_memory());
  CHECK_FALSE(files.train->is_in_memory());
  CHECK_FALSE(files.test->is_in_memory());
  CHECK(known_data_bytes(folder.request(kAll)) == kAll);
  CHECK(known_data_bytes(folder.request(kAll - 1)) > 0);
  CHECK(files.train->name() == kept.train->name());
  CHECK(files.train->content_hash() == kept.train->content_hash());
  CHECK(files.test->content_hash() == kept.test->content_hash());
  CHECK(files.test->images()->normalization().mean == kept.test->images()->normalization().mean);
  CHECK(files.test->classes() == 2);
  CHECK(kept.warning.empty());
}

TEST_CASE("files that are left out are counted and named, of both sets") {
  const Folder folder;
  folder.damage("train/cat/2.png");
  folder.damage("test/ant/1.png");
  for (const std::uint64_t memory : {kAll, kAll - 1}) {
    CHECK_THROWS_WITH(load_data(folder.request(memory)), Contains("train/cat/2.png: neither"));
    const TrainAndTest sets = load_data(folder.request(memory, true));
    CHECK(sets.train->size() == 2);
    CHECK(sets.test->size() == 1);
    CHECK_THAT(sets.warning,
               Contains("--skip-bad: 2 of 5 images cannot be used and are left out: ") &&
                   Contains("train/cat/2.png: neither JPEG nor PNG") && Contains("; ") &&
                   Contains("test/ant/1.png: neither"));
  }
}

TEST_CASE("a class or a held-out set without an image that can be used is refused") {
  const Folder folder;
  SECTION("a class") {
    folder.damage("train/ant/x.png");
    CHECK_THROWS_WITH(load_data(folder.request(kAll, true)),
                      Contains("train/ant: no image there can be used"));
  }
  SECTION("the held-out set") {
    folder.damage("test/cat/1.png");
    folder.damage("test/ant/1.png");
    CHECK_THROWS_WITH(
        load_data(folder.request(kAll, true)),
        Contains("no held-out image can be used: ") && Contains("test/ant/1.png: neither"));
  }
}

TEST_CASE("options of image files are refused for other sets") {
  const test::TempDir directory;
  std::ofstream(directory / "data_batch_1.bin") << "x";
  DataRequest request{.data = directory.path().string()};
  request.images.skip_bad = true;
  CHECK_THROWS_WITH(load_data(request),
                    Contains("--skip-bad needs a folder with JPEG and PNG files"));
}

}  // namespace
}  // namespace ddprun::trainer
