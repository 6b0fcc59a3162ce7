// Folders of classes become a pair of sets.
#include "trainer/data/image_folders.hpp"

#include <catch2/catch.hpp>

#include "tests/support/temp_dir.hpp"
#include "trainer/data/load.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

class ClassFolder {
 public:
  ClassFolder() {
    for (const char* name : {"train/cat/1.png", "train/cat/2.png", "train/ant/x.png",
                             "test/cat/1.png", "test/ant/1.png"})
      add(name);
  }
  void add(const std::string& name) const {
    fs::create_directories((path() / name).parent_path());
    fs::copy_file(fs::path(DDPRUN_CORPORA) / "png" / "colour", path() / name);
  }
  [[nodiscard]] fs::path path() const { return directory_.path(); }
  [[nodiscard]] DataRequest request() const {
    return {.data = path().string(),
            .images = {.shape = {.height = 10, .width = 14, .channels = 3}, .threads = 2}};
  }
  [[nodiscard]] TrainAndTest load() const { return load_data(request()); }

 private:
  test::TempDir directory_;
};

TEST_CASE("labels follow from the sorted names of the classes") {
  const ClassFolder folder;
  const TrainAndTest sets = folder.load();
  CHECK(sets.train->size() == 3);
  CHECK(sets.test->size() == 2);
  CHECK(sets.train->classes() == 2);
  CHECK(sets.train->name() == folder.path().filename().string() + " 10x14x3");
  std::vector<std::uint8_t> pixels(10 * 14 * 3);
  CHECK(sets.train->images()->read(0, pixels) == 0);
  CHECK(sets.train->images()->read(1, pixels) == 1);
  CHECK(sets.train->images()->read(2, pixels) == 1);
  CHECK(sets.test->images()->read(1, pixels) == 1);
  CHECK(known_data_bytes(folder.request()) == sets.train->bytes() + sets.test->bytes());
}

TEST_CASE("labels go on beyond what a byte holds") {
  const ClassFolder folder;
  for (int i = 0; i < 300; ++i) folder.add("train/class-" + std::to_string(1000 + i) + "/1.png");
  folder.add("test/class-1299/1.png");
  DataRequest request = folder.request();
  for (const bool in_memory : {true, false}) {
    if (!in_memory) request.images.memory = 0;
    const TrainAndTest sets = load_data(request);
    CHECK(sets.train->is_in_memory() == in_memory);
    CHECK(sets.train->classes() == 302);
    CHECK(sets.train->label(302) == 301);
    CHECK(sets.test->label(2) == 301);
  }
}

TEST_CASE("the number of classes is limited") {
  CHECK_NOTHROW(check_class_count("pictures/train", 2));
  CHECK_NOTHROW(check_class_count("pictures/train", 65536));
  CHECK_THROWS_WITH(
      check_class_count("pictures/train", 65537),
      Contains("pictures/train: 65537 folders of classes, but a classifier reads 2 to 65536"));
}

TEST_CASE("val/ is held out if it is there, else test/") {
  const ClassFolder folder;
  folder.add("val/cat/1.png");
  CHECK(folder.load().test->size() == 1);
  fs::remove_all(folder.path() / "val");
  fs::remove_all(folder.path() / "test");
  CHECK_THROWS_WITH(folder.load(), Contains("no val/ or test/ there to evaluate on beside train/: "
                                            "add one"));
  folder.add("Valid/cat/1.png");
  CHECK_THROWS_WITH(folder.load(), Contains("beside train/: rename Valid/ to val/"));
}

TEST_CASE("classes that cannot be learned or tested are named") {
  const ClassFolder folder;
  SECTION("in the held-out set alone") {
    folder.add("test/bee/1.png");
    CHECK_THROWS_WITH(folder.load(), Contains("test/bee: there is no class bee in train/"));
  }
  SECTION("without images") {
    fs::create_directories(folder.path() / "train" / "bee");
    CHECK_THROWS_WITH(folder.load(), Contains("train/bee: no .jpg, .jpeg or .png file there"));
  }
  SECTION("one") {
    fs::remove_all(folder.path() / "train" / "ant");
    CHECK_THROWS_WITH(folder.load(), Contains("train: 1 folder of classes, but a classifier"));
  }
  SECTION("an empty held-out folder") {
    fs::remove_all(folder.path() / "test" / "ant");
    fs::remove_all(folder.path() / "test" / "cat");
    CHECK_THROWS_WITH(folder.load(), Contains("test: no folders of classes there"));
  }
}

TEST_CASE("options about masks are refused where there are none") {
  const ClassFolder folder;
  DataRequest request = folder.request();
  request.images.holdout = 0.1;
  CHECK_THROWS_WITH(load_data(request),
                    Contains("--holdout needs a folder with images/ and masks/"));
}

}  // namespace
}  // namespace ddprun::trainer
