// What a process takes that trains on more images than --data-memory allows.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

constexpr double kMegabyte = 1e6;

/// So many images of 28x20 pixels in folders of classes: one file under many names.
void fill_folders(const fs::path& folder, int count) {
  for (const char* name : {"train/a", "train/b", "val/a", "val/b"}) {
    const fs::path first = folder / name / "0.png";
    fs::create_directories(first.parent_path());
    fs::copy_file(fs::path(DDPRUN_CORPORA) / (name[0] == 't' ? "png/colour" : "jpeg/colour"),
                  first);
    for (int i = 1; i < count; ++i)
      fs::create_hard_link(first, folder / name / (std::to_string(i) + ".png"));
  }
}

/// The peak memory of the process, in megabytes.
double peak(std::vector<std::string> arguments, const std::string& shape = "96x96x3") {
  arguments.insert(arguments.end(), {"--batch=4", "--lanes=1", "--shards=1", "--max-steps=30",
                                     "--checkpoint-every=off", "--image-shape=" + shape});
  const nlohmann::json line = nlohmann::json::parse(train({.arguments = arguments}));
  return line["peak_process_bytes"].at(0).get<double>() / kMegabyte;
}

/// 27,648 bytes an image: 44 MB.
constexpr int kInFolder = 400;
constexpr double kDecoded = 4 * kInFolder * 96 * 96 * 3 / kMegabyte;
/// What two runs of the same data differ by, and the names of the files.
constexpr double kNoise = 6;

}  // namespace

TEST_CASE("images that do not fit into --data-memory are not held beside the queue") {
  const TempDir few, many;
  fill_folders(few.path(), 2);
  fill_folders(many.path(), kInFolder);
  // Also the few are decoded in each epoch, with the same queue.
  const double without = peak({"--data", few.path(), "--data-memory=1"});
  const double bounded = peak({"--data", many.path(), "--data-memory=1M"});
  CHECK(bounded < without + 1 + kNoise);
  CHECK(peak({"--data", many.path()}) > without + 0.8 * kDecoded);
}

TEST_CASE("resized images that do not fit into --data-memory are held in their own size") {
  const SmallData data(16);  // 80 kB
  const double resized = (250 + 64) * 160 * 160 * 3 / kMegabyte;
  const double bounded = peak({"--data", data.path(), "--data-memory=1M"}, "160x160x3");
  CHECK(peak({"--data", data.path()}, "160x160x3") > bounded + 0.8 * resized);
}
