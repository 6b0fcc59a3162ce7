// Training on image files: the same result for any number of workers, and what cannot be read is
// named before training.
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

using Catch::Matchers::Contains;

/// JPEG and PNG files of several kinds, `count` in `folder`.
void copy_images(const fs::path& folder, int count) {
  const std::vector<std::string> kinds{"jpeg/colour", "png/palette", "jpeg/grey", "png/alpha",
                                       "jpeg/progressive"};
  fs::create_directories(folder);
  for (int i = 0; i < count; ++i) {
    const std::string& kind = kinds[static_cast<std::size_t>(i) % kinds.size()];
    fs::copy_file(fs::path(DDPRUN_CORPORA) / kind, folder / (std::to_string(i) + ".png"));
  }
}

std::string refusal(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{program("train")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  ChildOptions options;
  options.leave_stdin = true;
  const ChildResult result = run(command, options);
  CHECK(result.status == 2);
  return result.err;
}

}  // namespace

TEST_CASE("images in folders of classes give the same weights for any number of workers") {
  const TempDir folder;
  for (const char* name : {"train/a", "train/b", "val/a", "val/b"})
    copy_images(folder.path() / name, 9);
  check_world_sizes({"--data", folder.path(), "--batch=2", "--epochs=2"}, "test_accuracy");
  std::ofstream(folder.path() / "val" / "b" / "x.jpg") << "no image";
  CHECK_THAT(refusal({"--data", folder.path()}),
             Contains("val/b/x.jpg: neither JPEG nor PNG, judged by its first bytes"));
}

TEST_CASE("images with masks give the same weights for any number of workers") {
  const TempDir folder;
  copy_images(folder.path() / "images", 12);
  copy_images(folder.path() / "masks", 12);
  check_world_sizes(
      {"--model=unet16", "--data", folder.path(), "--holdout=0.3", "--batch=1", "--epochs=1",
       "--max-steps=1", "--image-shape=36x40x3", "--crop=32+2", "--flip"},
      "test_iou");
  CHECK_THAT(refusal({"--model=unet16", "--data", folder.path()}), Contains("--holdout=0.15"));
}
