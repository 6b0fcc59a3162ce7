// The command line: defaults, spellings, and one clear line for each mistake.
#include "trainer/run/cli/options.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <limits>
#include <set>
#include <sstream>

#include "tests/unit/trainer/run/cli/parsed_options.hpp"
#include "texts/misplaced_option.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using Arguments = std::vector<std::string>;

EarlyExit refused(const Arguments& arguments) {
  const auto parsed = parse_options(arguments);
  REQUIRE(std::holds_alternative<EarlyExit>(parsed));
  return std::get<EarlyExit>(parsed);
}

TEST_CASE("no argument at all is a complete command") {
  const Options options = parse({});
  CHECK(options.model.name == ModelName::lenet);
  CHECK(options.data.folder == "generated");
  CHECK(base_rate(options) == 0.05);
  CHECK(options.checkpoints.resume == Resume::automatic);
}

TEST_CASE("values come with a blank or with =, and names with dashes or underscores") {
  CHECK(parse({"--max-steps", "7"}).batches.max_steps == 7);
  CHECK(parse({"--max-steps=7"}).batches.max_steps == 7);
  CHECK(parse({"--max_steps=7"}).batches.max_steps == 7);
  CHECK(parse({"--data=a_b"}).data.folder == "a_b");
  CHECK(parse({"--data", "a_b"}).data.folder == "a_b");
}

TEST_CASE("words are converted to their values") {
  const Options options =
      parse({"--optimizer=adamw", "--schedule=step", "--precision=bf16", "--resume=strict",
             "--checkpoint-every=20", "--comm-timeout=3s", "--rendezvous-timeout=20"});
  CHECK(options.optimizer.kind == OptimizerKind::adamw);
  CHECK(base_rate(options) == 0.001);
  CHECK(options.schedule.kind == ScheduleKind::step);
  CHECK(options.precision.format == Precision::bf16);
  CHECK(parse({"--precision=tf32"}).precision.format == Precision::tf32);
  CHECK(options.checkpoints.resume == Resume::strict);
  CHECK(options.checkpoints.every.steps == 20);
  CHECK(options.comm.timeout == std::chrono::seconds(3));
  CHECK(options.comm.rendezvous_timeout == std::chrono::seconds(20));
}

TEST_CASE("replicas are those of dp, on the CPU") {
  CHECK(parse({}).device.parallel == Parallel::ddp);
  CHECK(replicas_of(parse({})) == 1);
  const Options options = parse({"--parallel=dp", "--replicas=3"});
  CHECK(options.device.parallel == Parallel::dp);
  CHECK(replicas_of(options) == 3);
  CHECK(options.device.kind == DeviceKind::cpu);
  // What evaluates may have the options of what trained.
  const Options evaluates = parse({"--eval", "--resume-from=out", "--parallel=dp", "--replicas=3"});
  CHECK(evaluates.device.parallel == Parallel::ddp);
  CHECK(replicas_of(evaluates) == 1);
  CHECK(evaluates.device.kind == DeviceKind::automatic);
}

TEST_CASE("generated pictures have the model's usual shape, or the one that is given") {
  const auto shape = [](const Arguments& arguments) {
    const ImageShape read = generated_shape(parse(arguments));
    return std::array{read.height, read.width, read.channels};
  };
  CHECK(shape({}) == std::array{28, 28, 1});
  CHECK(shape({"--image-shape=32x32x3"}) == std::array{32, 32, 3});
  CHECK(shape({"--model=unet16"}) == std::array{32, 32, 3});
  CHECK(shape({"--model=alexnet"}) == std::array{64, 64, 3});
  CHECK(shape({"--model=alexnet", "--image-shape=70x80x1"}) == std::array{70, 80, 1});
  CHECK(shape({"--model=unet-resnet34"}) == std::array{64, 64, 3});
  CHECK(shape({"--model=unet16", "--image-shape=64x96x1"}) == std::array{64, 96, 1});
}

TEST_CASE("pictures can be cropped, flipped and normalised in another way") {
  const PreparationSettings usual = parse({}).data.preparation;
  CHECK_FALSE(usual.crop);
  CHECK_FALSE(usual.flip);
  CHECK_FALSE(usual.normalize.values);
  const PreparationSettings given =
      parse({"--crop=24+2", "--flip", "--normalize=none"}).data.preparation;
  CHECK(to_string(given.crop.value()) == "24x24+2");
  CHECK(given.flip);
  CHECK(given.normalize.text == "none");
  for (const char* option : {"--crop=8", "--flip", "--normalize=none"})
    CHECK_THAT(refused({"--model=textclf", option}).text, Contains("needs a --model of images"));
  CHECK_THAT(refused({"--crop=28x"}).text, Contains("--crop 28x: must be like 28"));
  CHECK_THAT(refused({"--normalize=mean"}).text, Contains("--normalize mean: must be measured"));
}

TEST_CASE("the memory for images is a number of bytes, for folders alone") {
  CHECK_FALSE(parse({}).data.memory);
  const Options options = parse({"--data=photos", "--data-memory=3M", "--skip-bad"});
  CHECK(options.data.memory == 3U << 20);
  CHECK(options.data.skip_bad);
  CHECK_THAT(refused({"--data=photos", "--data-memory=much"}).text,
             Contains("--data-memory much: must be bytes, 1 or more, as in 500000"));
  for (const auto& [option, what] :
       {std::pair("--data-memory=1G", "needs --data FOLDER with images"),
        std::pair("--skip-bad", "needs --data FOLDER with JPEG and PNG files")}) {
    CHECK_THAT(refused({option}).text, Contains(what));
    CHECK_THAT(refused({"--model=textclf", "--data=texts", option}).text, Contains(what));
  }
}

TEST_CASE("every model of pictures takes those that are generated for it") {
  for (const char* model :
       {"lenet", "alexnet", "resnet18", "unet16", "unet-resnet34", "unet-resnet101"}) {
    INFO(model);
    const Options options = parse({std::string("--model=") + model});
    CHECK_NOTHROW(make_graph(
        {.model = options.model.name, .shape = generated_shape(options), .classes = 10}));
  }
}

TEST_CASE("initial values, decay and the width of the head can be chosen") {
  CHECK_FALSE(parse({"--init=default"}).model.normal_init);
  CHECK(parse({"--init=normal:0.01"}).model.normal_init == 0.01);
  CHECK(parse({}).optimizer.decay == Decay::weights);
  CHECK(parse({"--decay=all", "--weight-decay=0.01"}).optimizer.decay == Decay::all);
  CHECK_FALSE(parse({}).model.classes);
  CHECK(parse({"--classes=1000"}).model.classes == 1000);
}

TEST_CASE("each model with a dropout has a usual probability, or the one that is given") {
  CHECK(dropout_of(parse({"--model=alexnet"})) == 0.5);
  CHECK(dropout_of(parse({"--model=textclf"})) == 0.1);
  CHECK(dropout_of(parse({"--model=unet-resnet34"})) == 0.2);
  CHECK(dropout_of(parse({"--model=unet-resnet101", "--dropout=0"})) == 0);
  CHECK(dropout_of(parse({"--model=textclf", "--dropout=0"})) == 0);
  CHECK(dropout_of(parse({"--model=alexnet", "--dropout=0.3"})) == 0.3);
  CHECK(dropout_of(parse({})) == 0);
}

TEST_CASE("a file of initial weights and prefixes to skip, one for each time it is given") {
  const Options options = parse(
      {"--init-from", "m.safetensors", "--init-skip=fc3.", "--init_skip", "conv1.", "--epochs=2"});
  CHECK(options.model.init_from == "m.safetensors");
  CHECK(options.model.init_skip == Arguments{"fc3.", "conv1."});
  CHECK(options.batches.epochs == 2);
  CHECK_FALSE(parse({}).model.init_from);
}

TEST_CASE("the man page and all completions of train name every option of its help") {
  const auto printed = [](const std::string& argument) {
    const EarlyExit exit = refused({argument});
    CHECK(exit.code == 0);
    return exit.text;
  };
  const std::string man = printed("--man");
  const std::string bash = printed("--completion=bash");
  const std::string zsh = printed("--completion=zsh");
  const std::string fish = printed("--completion=fish");
  const std::string tcsh = printed("--completion=tcsh");
  CHECK_THAT(man, StartsWith(".TH DDPRUN-TRAIN 1 "));
  std::istringstream help(printed("--help"));
  std::set<std::string> names;
  for (std::string line; std::getline(help, line);) {
    const auto start = line.find("--");
    if (line.find_first_not_of(' ') != start && !line.starts_with("  -h,") &&
        !line.starts_with("  -V,"))
      continue;
    if (start == std::string::npos) continue;
    const auto end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", start);
    if (end != std::string::npos &&
        std::string_view(" =[").find(line[end]) == std::string_view::npos)
      continue;  // a text's line
    const std::string name = line.substr(start, end - start);
    INFO(name);
    names.insert(name);
    std::string in_roff;
    for (const char c : name) in_roff += c == '-' ? "\\-" : std::string(1, c);
    CHECK_THAT(man, Contains("\\fB" + in_roff + "\\fR"));
    CHECK_THAT(bash, Contains(name));
    CHECK_THAT(zsh, Contains(name));
    CHECK_THAT(fish, Contains(" -l " + name.substr(2) + " "));
    CHECK_THAT(tcsh, Contains(name));
  }
  std::set<std::string> known{"--completion", "--man", "--version", "--help"};
  for (const auto option : options_of("train")) known.insert("--" + std::string(option));
  CHECK(names == known);
  CHECK_THAT(bash, Contains("--precision) words=\"fp32 tf32 bf16 fp16\""));
  CHECK_THAT(bash, Contains("--out) COMPREPLY=($(compgen -d"));
  CHECK_THAT(refused({"--completion=elvish"}).text,
             Contains("must be one of bash, zsh, fish, tcsh"));
}

TEST_CASE("options for our own tests are in no text and are not suggested") {
  CHECK(parse({"--share-gpu", "--device=cuda"}).device.share_gpu);
  CHECK(parse({"--precision=fp16", "--inject-overflow-at=3"}).precision.inject_overflow_at == 3);
  for (const char* text : {"--help", "--man", "--completion=bash", "--completion=fish"}) {
    INFO(text);
    CHECK_THAT(refused({text}).text, !Contains("share-gpu") && !Contains("share\\-gpu") &&
                                         !Contains("inject-overflow") &&
                                         !Contains("overflow\\-at"));
  }
  CHECK_THAT(refused({"--share-gpus"}).text, !Contains("did you mean"));
}

TEST_CASE("an unknown option suggests the nearest") {
  const EarlyExit exit = refused({"--epoch=3"});
  CHECK(exit.code == 2);
  CHECK(exit.text == "train: unknown option --epoch; did you mean --epochs?\n");
  CHECK_THAT(refused({"--foo"}).text, !Contains("did you mean"));
  CHECK_THAT(refused({"--acumulate", "2"}).text, Contains("did you mean --accumulate?"));
  CHECK_THAT(refused({"--frobnicate"}).text, Contains("see train --help"));
}

TEST_CASE("an option of ddprun behind train is answered with its place") {
  const std::string answer =
      "train: --nproc-per-node is an option of ddprun: put it before train, as in ddprun "
      "--nproc-per-node=2 train\n";
  CHECK(refused({"--nproc-per-node=2"}).text == answer);
  CHECK(refused({"--nproc_per_node", "2", "--epochs=1"}).text == answer);
  CHECK(refused({"--standalone", "--epochs=1"}).text ==
        "train: --standalone is an option of ddprun: put it before train, as in ddprun "
        "--standalone ... train\n");
  // A word that is not a number may be something else.
  CHECK(refused({"--standalone", "foo"}).text ==
        "train: --standalone is an option of ddprun: put it before train, as in ddprun "
        "--standalone ... train\n");
}

TEST_CASE("a missing value is named by its kind, with the command that shows the help") {
  CHECK(refused({"--epochs"}).text ==
        "train: --epochs needs a value: --epochs=N (see train --help)\n");
  CHECK(refused({"--quiet=no"}).text ==
        "train: --quiet takes no value: write --quiet alone (see train --help)\n");
  CHECK(refused({"--out"}).text == "train: --out needs a value: --out=DIR (see train --help)\n");
  setenv("TORCHELASTIC_RUN_ID", "job", 1);
  const std::string under_ddprun = refused({"--epochs"}).text;
  unsetenv("TORCHELASTIC_RUN_ID");
  CHECK(under_ddprun == "train: --epochs needs a value: --epochs=N (see ddprun train --help)\n");
}

TEST_CASE("checkpoints are kept by number, or all of them") {
  CHECK(parse({}).checkpoints.keep == 2);
  CHECK(parse({"--keep=7"}).checkpoints.keep == 7);
  CHECK(parse({"--keep=all"}).checkpoints.keep == std::numeric_limits<int>::max());
}

TEST_CASE("what is best may be named") {
  CHECK_FALSE(parse({}).checkpoints.best_by.has_value());
  CHECK(parse({"--best=loss"}).checkpoints.best_by == BestBy::loss);
  CHECK(parse({"--model=unet16", "--best=f1"}).checkpoints.best_by == BestBy::f1);
}

TEST_CASE("every mistake is one line with the option's name and exit code 2") {
  const std::vector<std::pair<Arguments, std::string>> cases{
      {{"--epochs", "0"}, "--epochs"},
      {{"--epochs", "many"}, "--epochs"},
      {{"--epochs"}, "--epochs"},
      {{"--batch", "-1"}, "--batch"},
      {{"--batch", "1e3"}, "--batch"},
      {{"--lr", "-0.1"}, "--lr: must be a number from 0 to 1000000, not -0.1"},
      {{"--lr", "nan"}, "--lr"},
      {{"--seed", "-1"}, "--seed"},
      {{"--seed=1", "--seed=2"}, "--seed is given several times: give it once (see"},
      {{"--shards", "99999999999999999999"}, "--shards"},
      {{"--momentum", "2"}, "--momentum"},
      {{"--optimizer", "adam"}, "--optimizer: must be one of sgd, adamw, not adam"},
      {{"--precision", "fp8"}, "--precision"},
      {{"--resume", "maybe"}, "--resume"},
      {{"--checkpoint-every", "soon"}, "--checkpoint-every"},
      {{"--comm-timeout", "0"}, "--comm-timeout: must be seconds above 0"},
      {{"--model=unet16", "--image-shape=64x64"}, "like 64x96x3"},
      {{"--image-shape", "5x5"}, "--image-shape"},
      {{"--batch", "8", "--global-batch", "16"},
       "--batch and --global-batch cannot be given together: leave out one of them"},
      {{"--shards=4", "--accumulate=4"},
       "--shards 4 and --accumulate 4 cannot be given together: --shards is V, which --accumulate "
       "makes of the number of workers or replicas: leave out one of them"},
      {{"--dp"}, "unknown option --dp; did you mean --parallel=dp --replicas=N?"},
      {{"--data_parallel"}, "--data-parallel; did you mean --parallel=dp --replicas=N?"},
      {{"--ddp"}, "unknown option --ddp; did you mean --parallel=ddp?"},
      {{"--parallel=dp", "--replicas=2", "--exact"},
       "--exact needs a GPU, but --parallel dp trains on the CPU, which is exact"},
      {{"--parallel=dp", "--replicas=2", "--cuda-graph=off"},
       "--cuda-graph needs a GPU, but --parallel dp trains on the CPU"},
      {{"--parallel=dp", "--replicas=2", "--precision=tf32"},
       "--precision needs a GPU for tf32, but --parallel dp trains on the CPU: take fp32"},
      {{"--inject-overflow-at", "3"}, "--precision fp16"},
      {{"--dropout", "0.1"}, "--dropout needs --model alexnet"},
      {{"--model", "unet-resnet43"}, "did you mean unet-resnet34?"},
      {{"--model", "resnet"}, "did you mean resnet18?"},
      {{"--classes", "1"}, "--classes"},
      {{"--classes", "4", "--model=unet16"}, "--classes needs a --model that learns labels"},
      {{"--init", "norml:0.01"}, "--init norml:0.01: must be default, or normal:STD"},
      {{"--init", "normal:0"}, "--init normal:0: must be"},
      {{"--init", "normal:0.01x"}, "--init normal:0.01x: must be"},
      {{"--init", "normal:nan"}, "--init normal:nan: must be"},
      {{"--init=normal:0.01", "--init-from=a"}, "--init needs --init-skip beside --init-from"},
      {{"--decay", "al", "--weight-decay=0.1"}, "weights, all, not al; did you mean all?"},
      {{"--decay", "all"}, "--decay needs --weight-decay above 0"},
      {{"--cuda-graph=off", "--device=cpu"}, "--cuda-graph needs a GPU, but --device is cpu"},
      {{"--size", "base"}, "--size needs --model textclf"},
      {{"--precision=tf32", "--device=cpu"},
       "--precision needs a GPU for tf32, but --device is cpu: take fp32, or a GPU"},
      {{"--grad-comm=bf16"}, "leave it out: gradients of several workers are always added up in"},
      {{"--mask-threshold=9"}, "--mask-threshold needs --data FOLDER with images/ and masks/"},
      {{"--model=unet16", "--holdout=0.1"}, "--holdout needs --data FOLDER with images/"},
      {{"--model=unet16", "--data=set", "--holdout=2"}, "--holdout: must be a number from 0 to 1"},
      {{"--model=unet16", "--data=set", "--mask-threshold=0"},
       "--mask-threshold: must be a number from 1 to 255"},
      {{"--data=generated-cracks"}, "--data needs a U-Net to learn generated-cracks"},
      {{"--model=textclf", "--data=generated-cracks"}, "--data needs a U-Net"},
      {{"--model=unet16", "--data=generated-cracks", "--holdout=0.1"}, "--holdout needs --data"},
      {{"--tokens=bytes"}, "--tokens needs --model textclf with --data FOLDER"},
      {{"--model=textclf", "--data=set", "--sentences=9"}, "--sentences needs --data generated"},
      {{"--model=textclf", "--data=set", "--tokens=letters"},
       "--tokens letters: must be words, bytes, or a SentencePiece model, which ends in .model"},
      {{"--max-tokens", "32"}, "--max-tokens needs --model textclf"},
      {{"--sentences", "32"}, "--sentences needs --model textclf"},
      {{"--model=textclf", "--max-tokens=8"}, "--max-tokens: must be a number from 16 to 512"},
      {{"--model=textclf", "--size=huge"}, "--size: must be one of tiny, base, large"},
      {{"--model=textclf", "--image-shape=28x28x1"}, "--image-shape needs a --model of images"},
      {{"--best=f1"}, "--best needs a U-Net for iou and f1"},
      {{"--best=accuracy", "--model=unet16"}, "--best needs a --model that learns labels"},
      {{"--best=lost"}, "--best: must be one of accuracy, iou, f1, loss, not lost; did you mean"},
      {{"--log-every=1", "--checkpoint-every=off"}, "--log-every needs --json, or a folder"},
      {{"--keep=0"}, "--keep 0: must be all, or a number from 1 to 1000000"},
      {{"--keep=1x"}, "--keep 1x: must be all"},
      {{"--keep=3", "--checkpoint-every=off"},
       "--keep needs checkpoints, but --checkpoint-every is off"},
      {{"--stem", "imagenet"}, "--stem needs --model resnet18"},
      {{"--decoder", "deconv"}, "--decoder needs --model unet16"},
      {{"--pos-weight", "2"}, "--pos-weight needs --model unet16"},
      {{"--optimizer", "adamw", "--momentum", "0.5"}, "--momentum needs --optimizer sgd"},
      {{"--pos-weight=much", "--model=unet16"},
       "--pos-weight much: must be a number from 0 to 1000000, such as 3, or auto"},
      {{"--nesterov", "--momentum=0"}, "--nesterov needs --optimizer sgd with --momentum above 0"},
      {{"--betas=0.9,0.99"}, "--betas needs --optimizer adamw"},
      {{"--betas=0.9", "--optimizer=adamw"}, "--betas 0.9: must be two numbers"},
      {{"--betas=0.9,1", "--optimizer=adamw"}, "--betas 0.9,1: must be two numbers"},
      {{"--warmup=6 %"}, "--warmup 6 %: must be a number of steps, such as 500, or a share"},
      {{"--warmup=101%"}, "--warmup 101%: must be"},
      {{"--accumulate=0"}, "--accumulate 0: must be a number from 1 to "},
      {{"--accumulate=0"}, ": 1 is no accumulation"},
      {{"--warmup=5+2"}, "--warmup 5+2: must be"},
      {{"--warmup=+1"}, "--warmup +1: must be"},
      {{"--warmup=-1"}, "--warmup -1: must be"},
      {{"--loss-scale=none"}, "--loss-scale needs --precision fp16"},
      {{"--loss-scale=0.5", "--precision=fp16"}, "--loss-scale 0.5: must be dynamic, none, or"},
      {{"--plateau-patience=3"}, "--plateau-patience needs --schedule plateau"},
      {{"--schedule=plateu"}, "did you mean plateau?"},
      {{"--step-epochs", "2"}, "--step-epochs needs --schedule step"},
      {{"--step-factor", "0.5", "--schedule", "cosine"}, "--step-factor needs --schedule step"},
      {{"lenet"}, "lenet"},
      {{"--init-from"}, "--init-from needs a value: --init-from=FILE"},
      {{"--init-from="}, "--init-from"},
      {{"--init-skip", "fc3."}, "--init-skip needs --init-from"},
      {{"--init-from=a", "--init-skip="}, "--init-skip"},
      {{"--init-from=a", "--init-skip", "fc3.", "fc2."}, "unexpected argument fc2."},
  };
  for (const auto& [arguments, name] : cases) {
    const EarlyExit exit = refused(arguments);
    INFO(exit.text);
    CHECK(exit.code == 2);
    CHECK_THAT(exit.text, StartsWith("train: ") && Contains(name));
    CHECK(exit.text.find('\n') == exit.text.size() - 1);
  }
}

TEST_CASE("help teaches, and names every group") {
  const EarlyExit exit = refused({"--help"});
  CHECK(exit.code == 0);
  for (const char* part :
       {"ddprun --nproc-per-node=2 train", "What to train", "Batches", "Optimizer", "Machine",
        "Checkpoints and output", "--resume", "Exit status"}) {
    CHECK_THAT(exit.text, Contains(part));
  }
  CHECK_THAT(exit.text, !Contains("Excludes") && !Contains("\n\n\n"));
}

TEST_CASE("the version names the library that computes") {
  const EarlyExit exit = refused({"--version"});
  CHECK(exit.code == 0);
  CHECK_THAT(exit.text, StartsWith("train ") && Contains("oneDNN"));
}

}  // namespace
}  // namespace ddprun::trainer
