// Interrupted and resumed runs end with the bits of an undisturbed one, whatever was killed and
// whatever was torn.
#include <fcntl.h>
#include <sys/file.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <iterator>

#include "base/unique_handle.hpp"
#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

using Arguments = std::vector<std::string>;
using Catch::Matchers::Contains;

bool is_stopped(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string stat(std::istreambuf_iterator<char>(file), {});
  const std::size_t name_end = stat.rfind(") ");
  return name_end != std::string::npos && stat.at(name_end + 2) == 'T';
}

bool is_unlocked(const fs::path& path) {
  const ddprun::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd && flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

TEST_CASE("a run that stopped and was resumed, with other world sizes, ends with the same bits") {
  const SmallData data;
  const TempDir directory;
  const std::string out = directory / "out";
  const std::string base = undisturbed(data);
  // 8 steps an epoch: stops within the first, at the end of the second, and within the third.
  train({.world_size = 2, .arguments = three_epochs(data, {"--out", out, "--max-steps", "5"})});
  train({.world_size = 1, .arguments = three_epochs(data, {"--out", out, "--max-steps", "16"})});
  train({.world_size = 4, .arguments = three_epochs(data, {"--out", out, "--max-steps", "19"})});
  const std::string line =
      train({.world_size = 2, .arguments = three_epochs(data, {"--out", out})});
  CHECK(field(line, "weights") == base);
  CHECK(field(line, "steps") == "24");
}

TEST_CASE("the metrics of a resumed run are those of an uninterrupted one") {
  const SmallData data;
  const TempDir directory;
  const std::string whole =
      train({.arguments = three_epochs(data, {"--out", directory / "whole"})});
  train({.arguments = three_epochs(data, {"--out", directory / "parts", "--max-steps", "13"})});
  const std::string parts =
      train({.world_size = 2, .arguments = three_epochs(data, {"--out", directory / "parts"})});
  CHECK(field(parts, "train_loss") == field(whole, "train_loss"));
  CHECK(field(parts, "test_accuracy") == field(whole, "test_accuracy"));
}

TEST_CASE("V of the checkpoint is kept when it is not given") {
  const SmallData data;
  const TempDir directory;
  const Arguments arguments{"--data",   data.path(), "--batch", "8",
                            "--epochs", "2",         "--out",   directory / "out"};
  Arguments first = arguments;
  first.insert(first.end(), {"--max-steps", "5"});
  train({.world_size = 4, .arguments = first});
  CHECK(field(train({.world_size = 1, .arguments = arguments}), "shards") == "4");
}

TEST_CASE("a finished run that is started again prints the same and trains nothing") {
  const SmallData data;
  const TempDir directory;
  const Arguments arguments = three_epochs(data, {"--out", directory / "out"});
  const std::string first = train({.arguments = arguments});
  const std::string again = train({.world_size = 2, .arguments = arguments});
  CHECK(field(again, "weights") == field(first, "weights"));
  CHECK(field(again, "checkpoint") == field(first, "checkpoint"));
}

TEST_CASE("a run continues after all its workers were killed and ends with the same bits") {
  const SmallData data;
  const TempDir directory;
  const auto precision = GENERATE(as<std::string>{}, "fp32", "bf16");
  const std::string base = weights(
      {.arguments = three_epochs(data, {"--checkpoint-every", "off", "--precision", precision})});
  // Longer than the test: the kill ends the first round.
  GroupOptions options{
      .world_size = 2,
      .arguments = three_epochs(
          data, {"--out", directory / "out", "--checkpoint-every", "2", "--precision", precision})};
  {
    WorkerGroup group(options);
    REQUIRE(
        eventually([&] { return latest_step(directory / "out") >= 2; }, std::chrono::minutes(1)));
    for (const int rank : {0, 1}) group.rank(rank).signal(SIGKILL);
    for (const ChildResult& result : group.wait()) REQUIRE(result.status == 128 + SIGKILL);
  }
  options.restart_count = 1;
  const std::string line = train(options);
  CHECK(field(line, "weights") == base);
  CHECK(field(line, "restarts") == "1");
}

TEST_CASE("a round that is over publishes no checkpoint once a newer one has begun") {
  const SmallData data;
  const TempDir directory;
  const auto out = directory / "out";
  GroupOptions options{.world_size = 2,
                       .arguments = three_epochs(data, {"--out", out, "--checkpoint-every", "2"}),
                       .environment = {{"DDPRUN_EPOCH", "1"}, {"DDPRUN_ROUND", "0"}}};
  WorkerGroup cut_off(options);
  REQUIRE(eventually([&] { return latest_step(out) >= 2; }, std::chrono::minutes(1)));
  // Not while it publishes: then the newer one would be refused.
  REQUIRE(eventually([&] {
    for (const int rank : {0, 1}) cut_off.rank(rank).signal(SIGSTOP);
    const bool stopped = eventually([&] { return is_stopped(cut_off.rank(0).pid()); });
    if (stopped && is_unlocked(out / ".claim")) return true;
    for (const int rank : {0, 1}) cut_off.rank(rank).signal(SIGCONT);
    return false;
  }));

  options.restart_count = 1;
  options.environment = {{"DDPRUN_EPOCH", "1"}, {"DDPRUN_ROUND", "1"}};
  const std::string line = train(options);
  CHECK(field(line, "weights") == undisturbed(data));
  const auto newest = fs::read_symlink(out / "latest");

  for (const int rank : {0, 1}) cut_off.rank(rank).signal(SIGCONT);
  const ChildResult late = cut_off.wait().front();
  CHECK_THAT(late.err,
             Contains("out belongs to round 1 of this job; this is round 0, which is over") &&
                 Contains("not the final state"));
  CHECK(late.status == 1);
  CHECK(fs::read_symlink(out / "latest") == newest);
}

TEST_CASE("a random worker killed at a random step changes no bit (3 seeds)") {
  const SmallData data;
  const std::string base = undisturbed(data);
  for (const unsigned seed : {1U, 2U, 3U}) kill_and_restart(data, base, seed);
}

TEST_CASE("a torn newest checkpoint is skipped with a warning, and refused by strict") {
  const SmallData data;
  const TempDir directory;
  const std::string base = undisturbed(data);
  const Arguments arguments =
      three_epochs(data, {"--out", directory / "out", "--checkpoint-every", "4"});
  Arguments first = arguments;
  first.insert(first.end(), {"--max-steps", "8"});
  train({.arguments = first});
  fs::resize_file(directory / "out" / "step-00000008" / "model.safetensors", 1000);

  Arguments strict = arguments;
  strict.insert(strict.end(), {"--resume", "strict"});
  WorkerGroup refused({.arguments = strict});
  const ChildResult result = refused.wait()[0];
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("step-00000008/model.safetensors: cut short"));

  WorkerGroup group({.world_size = 2, .arguments = arguments});
  const ChildResult skipped = group.wait()[0];
  CHECK(skipped.status == 0);
  CHECK_THAT(skipped.err,
             Contains("train: warning: rank 0: skipped a checkpoint") && Contains("cut short"));
  CHECK(field(last_line(skipped.out), "weights") == base);
}

TEST_CASE("a checkpoint of another V is skipped with its reason, and a run starts from step 0") {
  const SmallData data;
  const TempDir directory;
  const Arguments out{"--out", directory / "out"};
  train({.arguments = three_epochs(data, {"--out", directory / "out", "--max-steps", "4"})});
  const Arguments other{"--data", data.path(),   "--batch", "8",     "--shards",
                        "2",      "--max-steps", "2",       "--out", directory / "out"};
  WorkerGroup group({.arguments = other});
  const ChildResult result = group.wait()[0];
  CHECK(result.status == 0);
  CHECK_THAT(result.err,
             Contains("another run: --shards 4 there, 2 here") && Contains("starting from step 0"));
  CHECK(fs::exists(directory / "out" / "step-00000004"));
}

TEST_CASE("the same data in a renamed folder is the same run and another set of its name is not") {
  const SmallData data;
  const TempDir directory;
  const auto arguments = [&](const fs::path& folder, const std::string& steps) {
    return Arguments{
        "--data", folder,     "--batch", "8",           "--shards", "4",     "--epochs",
        "3",      "--resume", "strict",  "--max-steps", steps,      "--out", directory / "out"};
  };
  const fs::path here = directory / "here" / "set";
  const fs::path there = directory / "there" / "set";
  for (const fs::path& folder : {here, there}) {
    fs::create_directories(folder.parent_path());
    fs::copy(data.path(), folder);
  }
  train({.arguments = arguments(here, "4")});
  fs::rename(here, directory / "renamed");
  CHECK(field(train({.arguments = arguments(directory / "renamed", "6")}), "steps") == "6");

  {  // one label of another class
    std::fstream labels(there / "train-labels-idx1-ubyte",
                        std::ios::in | std::ios::out | std::ios::binary);
    labels.seekg(100);
    const int label = labels.get();
    labels.seekp(100);
    labels.put(static_cast<char>((label + 1) % 10));
  }
  WorkerGroup group({.arguments = arguments(there, "8")});
  const ChildResult result = group.wait()[0];
  INFO(result.err);
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("another run: --data renamed 28x28x1 (") &&
                             Contains(") there, set 28x28x1 ("));
}

TEST_CASE("a new run starts fresh by default, and its restarted workers resume") {
  const SmallData data;
  const TempDir directory;
  GroupOptions options{.world_size = 2,
                       .arguments = three_epochs(data, {"--max-steps", "6"}),
                       .directory = directory.path()};
  const auto run_of = [&] {
    return fs::path(field(train(options), "checkpoint")).parent_path().filename().string();
  };
  const std::string first = run_of();
  CHECK(first.starts_with("20"));  // date and time
  const std::string second = run_of();
  CHECK(first != second);
  const fs::path latest = directory / "ddprun-out" / "latest";
  CHECK(fs::read_symlink(latest) == second);
  options.restart_count = 1;
  options.arguments = three_epochs(data, {"--max-steps", "8"});
  // Stands for a run that began between the two rounds.
  fs::remove(latest);
  fs::create_directory_symlink(first, latest);
  CHECK_THAT(field(train(options), "checkpoint"),
             Contains("ddprun-out/" + second + "/step-00000008"));
  CHECK(fs::read_symlink(latest) == first);
  // Its first round ended before it had a directory.
  options.environment = {{"TORCHELASTIC_RUN_ID", "job-6"}};
  train(options);
  CHECK(fs::read_symlink(latest) == "job-6");
  options.restart_count = 0;
  options.environment = {{"TORCHELASTIC_RUN_ID", "job/7"}};
  CHECK_THAT(field(train(options), "checkpoint"), Contains("ddprun-out/job_7/"));
}

TEST_CASE("restarted workers that find no checkpoint report that the directory may not be shared") {
  const SmallData data;
  const TempDir directory;
  const auto err_of = [&](const Arguments& more, int restarts) {
    Arguments arguments = three_epochs(data, {"--max-steps", "2", "--out", directory / "out"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    WorkerGroup group({.world_size = 2, .arguments = arguments, .restart_count = restarts});
    return group.wait()[0].err;
  };
  CHECK_THAT(err_of({}, 1), Contains("there is no checkpoint in " + (directory / "out").string()) &&
                                Contains("starting from step 0") &&
                                Contains("in a folder that all machines share"));
  CHECK_THAT(err_of({}, 1), !Contains("starting from step 0"));  // now there is one
  CHECK_THAT(err_of({"--checkpoint-every", "off", "--out", directory / "none"}, 1),
             !Contains("starting from step 0"));
}

TEST_CASE("a finished run reports that instead of training") {
  const SmallData data;
  const TempDir directory;
  const Arguments arguments = three_epochs(data, {"--out", directory / "out"});
  train({.arguments = arguments});
  const auto again = [&](const Arguments& given) {
    WorkerGroup group({.arguments = given, .json = false});
    return group.wait()[0];
  };
  const ChildResult result = again(arguments);
  CHECK(result.status == 0);
  CHECK_THAT(result.out, Contains("nothing to do: all 3 epochs are in ") &&
                             Contains("step-00000024") && !Contains("training on"));
  Arguments fewer = arguments;
  fewer.insert(fewer.end(), {"--max-steps", "5"});
  CHECK_THAT(again(fewer).out, Contains("nothing to do: all 5 steps are in "));
}

TEST_CASE(
    "a disk that is full stops no training, but a run does not succeed if its last state is lost") {
  const SmallData data;
  const TempDir directory;
  const std::string base = undisturbed(data);
  // The shell's file-size limit, in KiB: room for the metrics, not for a checkpoint.
  const std::vector<std::string> full{"bash", "-c", "ulimit -f 16; exec \"$0\" \"$@\""};
  const Arguments arguments = three_epochs(data, {"--out", directory / "out"});
  {
    WorkerGroup group({.arguments = arguments, .prefix = full});
    const ChildResult result = group.wait()[0];
    CHECK(result.status == 1);
    CHECK_THAT(result.err, Contains("cannot write a checkpoint") && Contains("File too large") &&
                               Contains("\ntrain: error: rank 0: no checkpoint was ever written"));
    CHECK(field(last_line(result.out), "weights") == base);
  }
  Arguments first = arguments;
  first.insert(first.end(), {"--max-steps", "5"});
  train({.arguments = first});
  // Also where the last step is one at which a checkpoint is due anyway.
  for (const std::string every : {"auto", "1"}) {
    Arguments again = arguments;
    again.insert(again.end(), {"--checkpoint-every", every});
    WorkerGroup group({.arguments = again, .prefix = full});
    const ChildResult result = group.wait()[0];
    CHECK(result.status == 1);
    CHECK(field(last_line(result.out), "weights") == base);
    CHECK_THAT(result.err, Contains("cannot write a checkpoint") && Contains("step-00000005") &&
                               Contains("\ntrain: error: rank 0: "));
  }
  CHECK(latest_step(directory / "out") == 5);
  CHECK(field(train({.arguments = arguments}), "weights") == base);
}
