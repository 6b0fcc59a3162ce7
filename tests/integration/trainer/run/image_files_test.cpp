// Training on image files: the same result for any number of workers, and what cannot be read is
// named before training.
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>

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

TEST_CASE("images that do not fit into --data-memory give the bits of those that do") {
  const TempDir folder;
  for (const char* name : {"train/a", "train/b", "val/a", "val/b"})
    copy_images(folder.path() / name, 9);
  std::ofstream(folder.path() / "train" / "a" / "bad.jpg") << "no image";
  std::vector<std::string> arguments{"--data",      folder.path(), "--batch=2", "--epochs=2",
                                     "--crop=24+2", "--flip",      "--skip-bad"};
  std::vector<std::string> in_memory = arguments;
  in_memory.insert(in_memory.end(), {"--shards=4", "--checkpoint-every=off"});
  const std::string one = train({.arguments = in_memory});
  arguments.emplace_back("--data-memory=1");
  check_same_result(one, check_world_sizes(arguments, "test_accuracy"), "test_accuracy");
  check_same_result(one, train_through_kill(arguments), "test_accuracy");
  arguments.insert(arguments.end(),
                   {"--parallel=dp", "--replicas=2", "--shards=4", "--checkpoint-every=off"});
  check_same_result(one, train({.arguments = arguments}), "test_accuracy");
}

TEST_CASE("resized images that do not fit into --data-memory give the bits of those that do") {
  const bool has_masks = GENERATE(false, true);
  const SmallData labelled;
  const SmallMasks masked(16);
  std::vector<std::string> arguments{"--batch=2", "--epochs=1", "--max-steps=1"};
  if (has_masks) {
    arguments.insert(arguments.end(),
                     {"--model=unet16", "--data", masked.path(), "--image-shape=32x32x3"});
  } else {
    arguments.insert(arguments.end(), {"--data", labelled.path(), "--image-shape=36x40x3"});
  }
  const std::string score = has_masks ? "test_iou" : "test_accuracy";
  std::vector<std::string> in_memory = arguments;
  in_memory.insert(in_memory.end(), {"--shards=4", "--checkpoint-every=off"});
  arguments.emplace_back("--data-memory=1");
  check_same_result(train({.arguments = in_memory}), check_world_sizes(arguments, score), score);
}

TEST_CASE("masks that do not fit into --data-memory give the bits of those that do") {
  const TempDir folder;
  copy_images(folder.path() / "images", 12);
  copy_images(folder.path() / "masks", 12);
  std::vector<std::string> arguments{"--model=unet16", "--data",     folder.path(),
                                     "--holdout=0.3",  "--batch=1",  "--epochs=1",
                                     "--max-steps=1",  "--shards=2", "--checkpoint-every=off"};
  const std::string one = train({.arguments = arguments});
  arguments.emplace_back("--data-memory=1");
  check_same_result(one, train({.world_size = 2, .arguments = arguments}), "test_iou");
}

TEST_CASE("a file that changes while it is trained on ends the run, and is named") {
  struct Change {
    const char* name;
    std::function<void(const fs::path& file, const fs::path& folder)> make;
    const char* text;
  };
  const auto put_at_once = [](const fs::path& file, const fs::path& folder, const auto& write) {
    write(folder / "other");
    fs::rename(folder / "other", file);  // as programs that replace files do it
  };
  const Change changes[] = {
      {"replaced",
       [&](const fs::path& file, const fs::path& folder) {
         put_at_once(file, folder, [](const fs::path& other) {
           fs::copy_file(fs::path(DDPRUN_CORPORA) / "jpeg" / "colour", other);
         });
       },
       "train/b/3.png: not what it was when training began"},
      {"gone", [](const fs::path& file, const fs::path&) { fs::remove(file); },
       "train/b/3.png: No such file or directory; it could be read when training began"},
      {"damaged",
       [&](const fs::path& file, const fs::path& folder) {
         put_at_once(file, folder,
                     [](const fs::path& other) { std::ofstream(other) << "no image"; });
       },
       "train/b/3.png: neither JPEG nor PNG"}};
  const Change& change = changes[GENERATE(0, 1, 2)];
  const bool skips_bad = GENERATE(false, true);
  INFO(change.name << (skips_bad ? " with --skip-bad" : ""));
  const TempDir folder;
  const TempDir out;
  for (const char* name : {"train/a", "train/b", "val/a", "val/b"})
    copy_images(folder.path() / name, 5);
  std::vector<std::string> arguments{"--data",    folder.path(),      "--data-memory=1",
                                     "--batch=1", "--epochs=1000000", "--checkpoint-every=1",
                                     "--out",     out / "run"};
  if (skips_bad) arguments.emplace_back("--skip-bad");
  WorkerGroup group({.world_size = 2, .arguments = arguments});
  REQUIRE(eventually([&] { return latest_step(out / "run") >= 2; }, std::chrono::minutes(1)));
  change.make(folder.path() / "train" / "b" / "3.png", folder.path());
  const std::vector<ChildResult> ended = group.wait();
  const bool is_first = ended[0].status == 2;
  const ChildResult& reader = ended[is_first ? 0 : 1];
  const ChildResult& other = ended[is_first ? 1 : 0];
  CHECK(reader.status == 2);
  CHECK_THAT(reader.err, Contains(change.text));
  if (std::string(change.name) != "replaced") {
    CHECK_THAT(reader.err, Contains(": put the file back, or begin a new run"));
    CHECK((reader.err.find(", and --skip-bad leaves out files only at the start") !=
           std::string::npos) == skips_bad);
  }
  CHECK((other.status == 75 || other.status == 2));
}

TEST_CASE("images that are left out are named in a warning") {
  const TempDir folder;
  for (const char* name : {"train/a", "train/b", "val/a", "val/b"})
    copy_images(folder.path() / name, 3);
  std::ofstream(folder.path() / "val" / "b" / "x\x1b[31m\n.jpg") << "no image";
  ChildOptions options;
  options.leave_stdin = true;
  const ChildResult result = run({program("train"), "--data", folder.path(), "--skip-bad",
                                  "--max-steps=1", "--checkpoint-every=off"},
                                 options);
  CHECK(result.status == 0);
  CHECK_THAT(result.err, Contains("warning: --skip-bad: 1 of 13 images cannot be used and is left "
                                  "out: ") &&
                             Contains("val/b/x\\x1b[31m\\n.jpg: neither JPEG nor PNG"));
}
