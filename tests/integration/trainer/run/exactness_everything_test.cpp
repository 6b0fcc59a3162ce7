// Everything at once that could depend on the number of workers or on a kill: image files read as
// they are needed, windows and flips, dropout, batch norm, a rate that warms up and falls at a
// plateau, a limit of the gradients' norm, and a loss scale that an overflow halves.
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

using Arguments = std::vector<std::string>;

constexpr int kStepsOfEpoch = 3;
constexpr int kKillAttempts = 5;

/// 9 images with masks to train on and 3 held out: 3 steps of V=4, b=1 in each epoch.
void write_images(const fs::path& folder) {
  const Arguments kinds{"jpeg/colour", "png/palette", "jpeg/grey", "png/alpha", "jpeg/progressive"};
  for (const char* name : {"images", "masks"}) {
    fs::create_directories(folder / name);
    for (std::size_t i = 0; i < 12; ++i)
      fs::copy_file(fs::path(DDPRUN_CORPORA) / kinds[i % kinds.size()],
                    folder / name / (std::to_string(i) + ".png"));
  }
}

Arguments everything(const fs::path& data, const fs::path& out) {
  return {"--model=unet-resnet34",
          "--data",
          data,
          "--holdout=0.25",
          "--image-shape=36x35x3",
          "--crop=64+16",
          "--flip",
          "--data-memory=1",
          "--batch=1",
          "--shards=4",
          "--epochs=4",
          "--lr=0.0000001",  // the third loss is no better by a 10,000th: the rate falls
          "--schedule=plateau",
          "--plateau-patience=0",
          "--warmup=2",
          "--grad-clip=0.05",
          "--precision=fp16",
          "--inject-overflow-at=5",
          "--pos-weight=auto",
          "--best=loss",
          "--log-every=1",
          "--checkpoint-every=1",
          "--out",
          out};
}

/// The numbers of a run that may not depend on workers, kills or time, in the order of the steps. A
/// step that was done again after a kill counts as it was done last.
std::string history(const fs::path& out) {
  std::map<std::pair<int, std::string>, nlohmann::json> lines;
  std::ifstream file(out / "metrics.jsonl");
  for (std::string text; std::getline(file, text);) {
    auto line = nlohmann::json::parse(text);
    for (const char* other :
         {"world_size", "round", "restarts", "seconds", "samples_per_second", "exposed_share",
          "checkpoint", "peak_device_bytes", "peak_process_bytes"})
      line.erase(other);
    if (line["type"] == "interval" || line["type"] == "epoch" || line["type"] == "final")
      lines[{line.value("step", 1000), line["type"]}] = line;
  }
  std::string text;
  for (const auto& [key, line] : lines) text += line.dump() + "\n";
  return text;
}

/// The step of the checkpoint that is called the best one, and a hash of its weights.
std::pair<std::string, std::size_t> best_of(const fs::path& out) {
  // A checkpoint that is written again has the name with a further number.
  const std::string name = fs::read_symlink(out / "best").filename().string();
  const std::string weights = text_of(out / "best" / "model.safetensors");
  return {name.substr(0, name.find('.')), std::hash<std::string>()(weights)};
}

}  // namespace

TEST_CASE("with everything on, every number of a run is the same for any world size and a kill") {
  const TempDir folder;
  write_images(folder.path() / "data");
  const auto arguments = [&](const std::string& out) {
    return everything(folder.path() / "data", folder.path() / out);
  };
  train({.world_size = 1, .arguments = arguments("1")});
  const std::string one = history(folder / "1");
  // What was asked for took place: a step was skipped, and the rate fell.
  REQUIRE(one.find("\"loss_scale\":32768.0") != std::string::npos);
  // From 1e-7; as a float a tenth of that is 9.99...e-09.
  REQUIRE(one.find("e-09,\"loss\"") != std::string::npos);
  REQUIRE(one.find("\"best_epoch\"") != std::string::npos);

  train({.world_size = 4, .arguments = arguments("4")});
  CHECK(history(folder / "4") == one);
  CHECK(best_of(folder / "4") == best_of(folder / "1"));
  GroupOptions options{.world_size = 2};
  std::string killed;
  // On a busy machine the signal can come at the end of an epoch or of the run; then another run is
  // killed.
  for (int attempt = 0; killed.empty() && attempt < kKillAttempts; ++attempt) {
    const std::string out = "killed" + std::to_string(attempt);
    options.arguments = arguments(out);
    WorkerGroup group(options);
    // Within the second epoch, most likely.
    REQUIRE(eventually([&] { return latest_step(folder / out) > kStepsOfEpoch; },
                       std::chrono::minutes(2)));
    group.rank(1).signal(SIGKILL);
    if (group.wait()[1].status != 128 + SIGKILL) continue;
    if (latest_step(folder / out) % kStepsOfEpoch != 0) killed = out;
  }
  REQUIRE_FALSE(killed.empty());
  options.restart_count = 1;
  options.world_size = 3;
  train(options);
  CHECK(history(folder / killed) == one);
  CHECK(best_of(folder / killed) == best_of(folder / "1"));
}
