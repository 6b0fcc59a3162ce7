// --eval: the figures of a checkpoint, for any number of workers, from any folder.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <limits>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

using Arguments = std::vector<std::string>;
using Catch::Matchers::Contains;

/// The line of the figures, which is also in the metrics of --out.
std::string evaluate(int world_size, Arguments arguments) {
  const TempDir out;
  arguments.insert(arguments.begin(), "--eval");
  arguments.insert(arguments.end(), {"--out", out.path()});
  std::string line = train({.world_size = world_size, .arguments = std::move(arguments)});
  CHECK(field(line, "type") == "evaluated");
  // Before it, where a second has passed, how far it was.
  CHECK_THAT(text_of(out / "metrics.jsonl"), Catch::Matchers::EndsWith(line + "\n"));
  // Measured, or another number.
  for (const char* const name : {"seconds", "world_size"}) {
    const std::size_t begin = line.find(std::string("\"") + name);
    REQUIRE(begin != std::string::npos);
    line.erase(begin, line.find(',', begin) + 1 - begin);
  }
  return line;
}

ChildResult refused(const Arguments& arguments) {
  WorkerGroup group({.arguments = arguments, .json = false});
  return group.wait()[0];
}

}  // namespace

TEST_CASE(
    "a checkpoint is evaluated to the figures that training reported, by any number of workers") {
  const SmallData data;
  const TempDir run;
  const std::string trained =
      train({.arguments = three_epochs(data, {"--out", run.path(), "--lr=0.1"})});
  const Arguments of_run{"--data", data.path(), "--resume-from", run.path() / "latest",
                         "--batch=8"};
  const std::string one = evaluate(1, of_run);
  CHECK(field(one, "type") == "evaluated");
  CHECK(field(one, "weights") == field(trained, "weights"));
  CHECK(field(one, "test_loss") == field(trained, "test_loss"));
  CHECK(field(one, "test_accuracy") == field(trained, "test_accuracy"));
  CHECK_THAT(one, Contains("{\"name\":\"9\",\"samples\":"));
  CHECK(evaluate(2, of_run) == one);
  CHECK(evaluate(4, of_run) == one);
  // A training command line may be given as it is, but for --out, where it leaves its line.
  Arguments all = three_epochs(data, {"--lr=0.1", "--keep=3", "--schedule=step"});
  all.insert(all.end(), {"--resume-from", run.path() / "latest"});
  CHECK(evaluate(1, all) == one);
}

TEST_CASE("the end of a run in the middle of an epoch may be its best state, and stays it") {
  const SmallData data;
  const int world_size = GENERATE(1, 2);
  const TempDir run;
  const auto trained = [&](const Arguments& more) {
    Arguments arguments{"--out", run.path(), "--keep=1", "--seed=5"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return train({.world_size = world_size, .arguments = three_epochs(data, arguments)});
  };
  const auto best = [&] { return fs::read_symlink(run.path() / "best").filename().string(); };
  const std::string cut_off = trained({"--lr=0.02", "--max-steps=11", "--checkpoint-every=11"});
  CHECK(field(cut_off, "best_step") == "11");
  CHECK(field(cut_off, "best_epoch") == "1");
  CHECK(field(cut_off, "best_score") == field(cut_off, "test_accuracy"));
  CHECK(best() == "step-00000011");
  const std::string evaluated =
      evaluate(1, {"--data", data.path(), "--resume-from", run.path(), "--batch=8"});
  CHECK(field(evaluated, "test_loss") == field(cut_off, "test_loss"));
  CHECK(field(evaluated, "weights") == field(cut_off, "weights"));
  // Where nothing changes any more nothing is better.
  const std::string whole = trained({"--lr=0"});
  CHECK(field(whole, "steps") == "24");
  CHECK(field(whole, "best_step") == "11");
  CHECK(best() == "step-00000011");
  CHECK(fs::exists(run.path() / "best" / "model.safetensors"));
}

TEST_CASE("a run that was stopped before its last evaluation is judged when it is started again") {
  const SmallData data;
  const TempDir run;
  const auto trained = [&](const std::string& last) {
    return train({.arguments = three_epochs(
                      data, {"--out", run.path(), "--lr=0.02", "--seed=5", "--keep=all",
                             "--checkpoint-every=1", "--max-steps=" + last})});
  };
  trained("12");
  fs::remove_all(run.path() / "step-00000012");
  const std::string line = trained("11");
  CHECK(field(line, "best_step") == "11");
  CHECK(fs::read_symlink(run.path() / "best") == "step-00000011.2");
  const auto newest = fs::read_symlink(run.path() / "latest");
  CHECK(field(trained("11"), "best_step") == "11");
  CHECK(fs::read_symlink(run.path() / "latest") == newest);  // nothing is new
}

TEST_CASE("an evaluation at the end of a run is kept, though it is not the best") {
  const SmallData data;
  const TempDir run;
  // Where nothing changes nothing is better than the first epoch.
  const auto train_to = [&](const std::string& last) {
    train({.arguments = three_epochs(data, {"--out", run.path(), "--lr=0", "--keep=all",
                                            "--checkpoint-every=1", "--max-steps=" + last})});
  };
  train_to("12");
  fs::remove_all(run.path() / "step-00000012");
  train_to("11");  // its checkpoint is there, but without the evaluation
  train_to("11");
  const std::string lines = text_of(run.path() / "metrics.jsonl");
  const std::string sign = "\"complete\":false";
  std::size_t evaluations = 0;
  for (auto at = lines.find(sign); at != std::string::npos; at = lines.find(sign, at + 1))
    ++evaluations;
  CHECK(evaluations == 2);  // after steps 12 and 11
  CHECK(fs::read_symlink(run.path() / "best") == "step-00000008");
}

TEST_CASE("pictures are cropped and normalised as in training, whatever folder they are in") {
  const SmallData data;
  const TempDir run;
  const std::string trained =
      train({.arguments =
                 three_epochs(data, {"--out", run.path(), "--crop=24+2", "--flip", "--lr=0.1"})});
  const auto figures = [&](const std::string& folder) {
    return evaluate(1, {"--data", folder, "--resume-from", run.path() / "latest", "--batch=8"});
  };
  const std::string here = figures(data.path());
  CHECK(field(here, "test_loss") == field(trained, "test_loss"));
  // Other training pictures, of another mean, with the same held-out ones.
  const TempDir other;
  for (const auto& file : fs::directory_iterator(data.path()))
    fs::copy(file.path(), other.path() / file.path().filename());
  const fs::path pictures = other.path() / "train-images-idx3-ubyte";
  std::string bytes = text_of(pictures);
  std::fill(bytes.begin() + 16, bytes.end(), '\x10');
  std::ofstream(pictures, std::ios::binary) << bytes;
  CHECK(field(figures(other.path().string()), "test_loss") == field(here, "test_loss"));
}

TEST_CASE("a model of masks is evaluated by pixels, with the options of its run") {
  const SmallMasks data(32);
  const TempDir run;
  const std::string trained =
      train({.arguments = {"--data", data.path(), "--model=unet16", "--decoder=deconv",
                           "--pos-weight=auto", "--batch=2", "--epochs=1", "--out", run.path()}});
  const Arguments of_run{"--data", data.path(), "--resume-from", run.path(), "--batch=2"};
  const std::string one = evaluate(1, of_run);
  CHECK(field(one, "test_loss") == field(trained, "test_loss"));
  CHECK(field(one, "test_iou") == field(trained, "test_iou"));
  CHECK(field(one, "test_f1") == field(trained, "test_f1"));
  CHECK(evaluate(2, of_run) == one);
}

TEST_CASE("texts are read with the words of the checkpoint, not with those of another folder") {
  const TempDir data;
  const TempDir other;
  const TempDir run;
  for (const TempDir* const folder : {&data, &other}) {
    std::ofstream train_file(folder->path() / "train.tsv");
    std::ofstream dev(folder->path() / "dev.tsv");
    const char* const first = folder == &data ? "" : "quite other words quite other words\t0\n";
    train_file << first << "good film good\t1\nbad film bad\t0\ngood\t1\nbad plot plot\t0\n";
    dev << "good film\t1\nbad plot\t0\n";
  }
  train({.arguments = {"--data", data.path(), "--model=textclf", "--batch=2", "--epochs=2", "--out",
                       run.path()}});
  const std::string here = evaluate(1, {"--data", data.path(), "--resume-from", run.path()});
  const std::string there = evaluate(1, {"--data", other.path(), "--resume-from", run.path()});
  for (const char* const name : {"test_loss", "test_accuracy", "weights"})
    CHECK(field(here, name) == field(there, name));
  CHECK(evaluate(2, {"--data", data.path(), "--resume-from", run.path()}) == here);

  std::ofstream(run.path() / "best" / "vocabulary.txt") << "<s>\n";
  const ChildResult damaged =
      refused({"--eval", "--data", data.path(), "--resume-from", run.path()});
  CHECK(damaged.status == 2);
  INFO(damaged.err);
  CHECK_THAT(damaged.err, Contains("vocabulary.txt: cut short: 4 bytes, but ") &&
                              Contains(": copy the checkpoint again, or give another one"));

  fs::copy_file(run.path() / "best" / "model.safetensors", run.path() / "copy.safetensors");
  const ChildResult without =
      refused({"--eval", "--data", data.path(), "--resume-from", run.path() / "copy.safetensors"});
  CHECK(without.status == 2);
  CHECK_THAT(without.err, Contains("copy.safetensors: no vocabulary.txt beside it"));
}

TEST_CASE("what cannot be evaluated is refused with exit code 2 and what to do") {
  const SmallData data;
  const TempDir run;
  train({.arguments = three_epochs(data, {"--out", run.path(), "--max-steps=2"})});
  const std::string file = (run.path() / "best" / "model.safetensors").string();
  std::string wanted;
  Arguments arguments{"--eval", "--data", data.path(), "--resume-from", run.path()};
  SECTION("no weights") {
    arguments.resize(3);
    wanted = "--eval needs --resume-from";
  }
  SECTION("no --eval") {
    arguments.erase(arguments.begin());
    wanted = "--resume-from needs --eval. To train on, --out=DIR goes on";
  }
  SECTION("--init-from") {
    arguments.push_back("--init-from=" + file);
    wanted = "--init-from is for training";
  }
  SECTION("--tensorboard") {
    arguments.emplace_back("--tensorboard");
    wanted = "--tensorboard is for training: --eval has no curves";
  }
  SECTION("--init-skip") {
    arguments.emplace_back("--init-skip=fc3.");
    wanted = "--init-skip is for training: --eval needs all weights";
  }
  SECTION("nothing there") {
    arguments.back() = data.path();
    wanted = ": neither model.safetensors, nor a checkpoint (step-N/, best/, latest/)";
  }
  SECTION("another model") {
    arguments.emplace_back("--model=resnet18");
    wanted = "--resume-from=" + file + ": it was trained with --model=lenet, but --model=resnet18";
  }
  SECTION("another model without a name in the file") {
    const std::string other = (run.path() / "other.safetensors").string();
    std::string bytes = text_of(file);
    const std::size_t name = bytes.find("\"model\":\"lenet\"");
    REQUIRE(name != std::string::npos);
    bytes[name + 1] = 'x';
    std::ofstream(other, std::ios::binary) << bytes;
    arguments.back() = other;
    arguments.emplace_back("--model=resnet18");
    wanted =
        "there; it is [10, 512] in the model (and 110 more): it is of another model: give a "
        "file of this one\n";
  }
  SECTION("another file in place of the weights") {
    fs::remove(run.path() / "best" / "model.safetensors");
    fs::copy_file(run.path() / "best" / "optim.safetensors", file);
    wanted = ": copy the checkpoint again, or give another one\n";
  }
  SECTION("a wrong bit") {
    std::string bytes = text_of(file);
    bytes[bytes.size() - 3] ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
    wanted = "model.safetensors: damaged (its checksum does not match)";
  }
  SECTION("a nan") {
    const std::string bad = (run.path() / "bad.safetensors").string();
    fill_tensor(file, bad, "fc3.bias", std::numeric_limits<float>::quiet_NaN());
    arguments.back() = bad;
    wanted = ": give a file of sound weights\n";
  }
  const ChildResult result = refused(arguments);
  INFO(result.err);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains(wanted));
  CHECK(result.err.find('\n') == result.err.size() - 1);
}
