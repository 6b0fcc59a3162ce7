#include "trainer/run/options.hpp"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/cli/command_line.hpp"
#include "base/version.hpp"
#include "proto/environment_names.hpp"
#include "trainer/error.hpp"
#include "trainer/host/description.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/option_groups.hpp"
#include "trainer/run/program_text.hpp"

namespace ddprun::trainer {

constexpr auto words_for(DeviceKind) {
  using enum DeviceKind;
  return std::array{Word{automatic, "auto"}, Word{cpu, "cpu"}, Word{cuda, "cuda"}};
}

constexpr auto words_for(CudaGraph) {
  using enum CudaGraph;
  return std::array{Word{automatic, "auto"}, Word{off, "off"}};
}

constexpr auto words_for(Resume) {
  using enum Resume;
  return std::array{Word{automatic, "auto"}, Word{strict, "strict"}, Word{never, "never"}};
}

constexpr auto words_for(ModelName) {
  using enum ModelName;
  return std::array{Word{lenet, "lenet"},
                    Word{alexnet, "alexnet"},
                    Word{resnet18, "resnet18"},
                    Word{unet16, "unet16"},
                    Word{unet_resnet34, "unet-resnet34"},
                    Word{unet_resnet101, "unet-resnet101"},
                    Word{textclf, "textclf"}};
}

constexpr auto words_for(TextSize) {
  using enum TextSize;
  return std::array{Word{tiny, "tiny"}, Word{base, "base"}, Word{large, "large"}};
}

constexpr auto words_for(Stem) {
  using enum Stem;
  return std::array{Word{small, "small"}, Word{imagenet, "imagenet"}};
}

constexpr auto words_for(Decoder) {
  using enum Decoder;
  return std::array{Word{bilinear, "bilinear"}, Word{deconv, "deconv"}};
}

namespace {

constexpr int kClassesMax = 1'000'000;
constexpr double kDeviationMax = 1000;

/// How this program's help is called: an installed one is in libexec, where only ddprun finds it.
std::string help_command() {
  std::error_code failed;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  const bool in_libexec = folder.parent_path().filename() == "libexec";
  return in_libexec || std::getenv(proto::env::kRunId) != nullptr ? "ddprun train --help"
                                                                  : "train --help";
}

/// What is read before it becomes Options.
struct Texts {
  OptimizerTexts optimizer;
  std::string init = "default";
  std::string checkpoint_every = "auto";
};

void add_data_options(CommandLine& line, Options& options, Texts& texts) {
  line.group("What to train");
  line.choice("--model", options.model, "Network to train");
  line.number("--classes", options.classes, 2, kClassesMax, "N",
              "Outputs of a classifier's last layer; at least as many as the data has classes")
      ->default_str("the data's");
  line.number(
          "--dropout", options.dropout, 0, 1, "P",
          "The probability with which the dropout layers of alexnet and textclf drop a value, or "
          "the one of unet-resnet34 and -101 a whole channel")
      ->default_str("alexnet 0.5, unet-resnet 0.2, textclf 0.1");
  line.choice("--stem", options.stem,
              "How resnet18 begins: with a 3x3 convolution (images of about 28 pixels), or with "
              "torchvision's 7x7 one and max-pooling");
  line.choice("--decoder", options.decoder,
              "How a U-Net enlarges: bilinear and two convolutions, or a convolution and a "
              "transposed one");
  line.number("--positive-weight", options.positive_weight, 0, kRateMax, "X",
              "U-Nets: factor on the loss of the pixels of a mask");
  line.choice("--size", options.size,
              "textclf: tiny (2 layers of 128 channels), or the size of roberta-base or -large");
  line.text("--data", options.data, "DIR",
            "generated (ten kinds of shapes, drawn at the start; for a U-Net with masks; for "
            "textclf sentences), or a folder with train-images-idx3-ubyte[.gz], "
            "train-labels-idx1-ubyte[.gz] and the t10k ones; for a U-Net "
            "train-masks-idx3-ubyte[.gz] in place of the labels; textclf reads no files yet");
  line.text("--image-shape", options.image_shape, "HxWxC",
            "Of generated pictures: sides of at most 512, 1 or 3 channels; for alexnet sides of at "
            "least 63, for U-Nets multiples of 32 (unet-resnet: of 64)")
      ->default_str("28x28x1, unet16 32x32x3, alexnet and unet-resnet 64x64x3");
  line.number("--sentences", options.sentences.count, 1, kSentencesMost, "N",
              "Of generated sentences: how many for training; a quarter as many are held out");
  line.number("--max-tokens", options.sentences.tokens, kSentenceTokensLeast, kTextPositions, "N",
              "Of generated sentences: the most tokens of one");
  line.text("--init", texts.init, "HOW",
            "Seeded initial values: default (those of PyTorch, torchvision or transformers for "
            "this model), "
            "or normal:STD: weights of convolutions, transposed convolutions, linear layers and "
            "embeddings normal with this "
            "deviation, their biases 0");
  line.text("--init-from", options.init_from, "FILE",
            "Initial weights by name from this safetensors file (F32, F16 or BF16), in place of "
            "seeded ones; every name, shape and type must match");
  line.text("--init-skip", options.init_skip, "PREFIX",
            "With --init-from: leave out parameters and tensors with names that begin with PREFIX; "
            "may be given several times")
      ->allow_extra_args(false);
  line.number("--epochs", options.epochs, 1, kManyMax, "N", "Passes over the training set");
  line.number("--max-steps", options.max_steps, 1, kStepsMax, "N",
              "Stop after N steps (the learning rate still follows --epochs)");
}

void add_batch_options(CommandLine& line, Options& options) {
  line.group("Batches");
  CLI::Option* batch =
      line.number("--batch", options.batch, 1, kManyMax, "N", "b: samples of one shard")
          ->default_str("64");
  line.number("--global-batch", options.global_batch, 1, 1'000'000'000, "N",
              "Samples of all shards together, V x b; not with --batch")
      ->excludes(batch);
  line.number("--shards", options.shards, 1, kShardsMax, "N",
              "V: shards of a global batch; fixed for the run and kept in its checkpoints")
      ->default_str("the number of workers at the start, or of all that may come, x --accumulate");
  line.number("--accumulate", options.accumulate, 1, kShardsMax, "N",
              "Shards that each worker computes before an update, when --shards is not given");
}

void add_machine_options(CommandLine& line, Options& options) {
  line.group("Machine");
  line.choice("--device", options.device,
              "Where to train: auto takes the GPU of LOCAL_RANK where there is one that can be "
              "used, else the CPU");
  line.flag("--no-deterministic", options.no_deterministic,
            "On a GPU: also algorithms with bits that change from run to run");
  line.flag("--exact", options.exact,
            "On GPUs: the same bits for any number of workers, as on CPUs; takes more memory and "
            "is slower");
  line.choice("--grad-comm", options.grad_comm,
              "On GPUs: number format in which workers add up their gradients; running statistics "
              "stay fp32");
  line.flag("--share-gpu", options.share_gpu,
            "Several workers may use one GPU: for tests, as they wait for each other");
  line.choice("--cuda-graph", options.cuda_graph,
              "On a GPU: give it a step as a few CUDA graphs, not as hundreds of launches, where "
              "they can be captured");
  line.number("--threads-per-shard", options.threads_per_shard, 1, 1024, "N",
              "Threads that compute one shard; another number changes the last bits of the result");
  line.number("--lanes", options.lanes, 1, 1024, "N",
              "Shards that one worker computes side by side")
      ->default_str("as many as it has cores for");
  line.number("--bucket-mb", options.bucket_mb, 0.001, 1e6, "X",
              "Gradients are summed in buckets of this size, overlapped with backward");
  constexpr std::chrono::nanoseconds kLeast{1};
  line.duration("--comm-timeout", options.comm_timeout, kLeast,
                "How long to wait for another worker that lives but does not answer. Units are ms, "
                "s, m and h: 30, 0.5, 500ms, 2m");
  line.duration("--rendezvous-timeout", options.rendezvous_timeout, kLeast,
                "How long to wait at the start for the store and for the other workers");
}

void add_checkpoint_options(CommandLine& line, Options& options, Texts& texts) {
  line.group("Checkpoints and output");
  line.text("--out", options.out, "DIR", "Directory of checkpoints and metrics.jsonl")
      ->default_str("ddprun-out/RUN_ID; see below");
  line.choice("--resume", options.resume,
              "auto: go on from the newest usable checkpoint, with a warning for each newer one "
              "that is damaged or of another run; strict: fail where auto would skip one; never: "
              "from step 0, also after a restart");
  line.text("--checkpoint-every", texts.checkpoint_every, "WHEN",
            "auto (a crash costs at most 5 s of work, writing less than 2 % of the time), a number "
            "of steps, a duration such as 30s, or off");
  line.number("--keep", options.keep, 1, kManyMax, "N", "Checkpoints to keep beside the best one");
  line.flag("--json", options.json, "JSON lines on stdout instead of text");
  line.flag("--quiet", options.quiet, "Only the final table");
  line.group("Testing");
  line.number("--inject-overflow-at", options.inject_overflow_at, 0, kStepsMax, "STEP",
              "For tests of --precision fp16: make the gradients of this step infinite");
}

void check_init(const Options& options) {
  if (options.init_from && options.init_from->empty()) {
    throw DataError("--init-from: the name of the file is empty");
  }
  if (!options.init_from && !options.init_skip.empty()) {
    throw DataError("--init-skip needs --init-from: it leaves out what that file has");
  }
  for (const std::string& prefix : options.init_skip) {
    if (prefix.empty()) {
      throw DataError("--init-skip: an empty prefix leaves out all: give the beginning of a name");
    }
  }
}

/// "default" gives none.
std::optional<double> parse_init(const std::string& text) {
  if (text == "default") return std::nullopt;
  constexpr std::string_view kNormal = "normal:";
  if (text.starts_with(kNormal)) {
    double deviation = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + kNormal.size(), end, deviation);
    if (error == std::errc() && stop == end && deviation > 0 && deviation <= kDeviationMax)
      return deviation;
  }
  throw DataError(
      fmt::format("--init {}: must be default, or normal:STD with a deviation above 0 and at most "
                  "{}, such as normal:0.01",
                  text, kDeviationMax));
}

bool contains(const std::vector<std::string>& given, const char* option) {
  return std::find(given.begin(), given.end(), option) != given.end();
}

/// Options that would do nothing beside the others.
void check_given(const std::vector<std::string>& given, const Options& options) {
  struct Need {
    const char* option;
    bool is_met;
    const char* what;
  };
  const bool is_unet = target_of(options.model) == Target::mask;
  constexpr const char* kUnets = "--model unet16, unet-resnet34 or unet-resnet101";
  const Need needs[] = {
      {"--classes", !is_unet, "a --model that learns labels: U-Nets learn masks"},
      {"--init", !options.init_from || !options.init_skip.empty(),
       "--init-skip beside --init-from, which gives all other weights"},
      {"--decay", weight_decay_of(options) > 0, "--weight-decay above 0"},
      {"--dropout", default_dropout(options.model) > 0,
       "--model alexnet, unet-resnet34, unet-resnet101 or textclf"},
      {"--size", options.model == ModelName::textclf, "--model textclf"},
      {"--sentences", options.model == ModelName::textclf, "--model textclf"},
      {"--max-tokens", options.model == ModelName::textclf, "--model textclf"},
      {"--image-shape", !reads_texts(options.model), "a --model of images"},
      {"--image-shape", options.data == kGeneratedData,
       "--data generated: the pictures of a folder have their own"},
      {"--no-deterministic", options.device != DeviceKind::cpu, "a GPU, but --device is cpu"},
      {"--exact", options.device != DeviceKind::cpu, "a GPU, but --device is cpu, which is exact"},
      {"--grad-comm", options.device != DeviceKind::cpu, "a GPU, but --device is cpu"},
      {"--grad-comm", !options.exact || options.grad_comm == Precision::fp32,
       "to be without --exact, which adds up floats"},
      {"--share-gpu", options.device != DeviceKind::cpu, "a GPU, but --device is cpu"},
      {"--cuda-graph", options.device != DeviceKind::cpu, "a GPU, but --device is cpu"},
      {"--keep", options.checkpoint_every.kind != CheckpointEvery::Kind::off,
       "checkpoints, but --checkpoint-every is off"},
      {"--stem", options.model == ModelName::resnet18, "--model resnet18"},
      {"--decoder", is_unet, kUnets},
      {"--positive-weight", is_unet, kUnets},
      {"--momentum", options.optimizer == OptimizerKind::sgd, "--optimizer sgd"},
      {"--nesterov", options.optimizer == OptimizerKind::sgd && options.momentum > 0,
       "--optimizer sgd with --momentum above 0"},
      {"--betas", options.optimizer == OptimizerKind::adamw, "--optimizer adamw"},
      {"--eps", options.optimizer == OptimizerKind::adamw, "--optimizer adamw"},
      {"--plateau-patience", options.schedule == ScheduleKind::plateau, "--schedule plateau"},
      {"--plateau-factor", options.schedule == ScheduleKind::plateau, "--schedule plateau"},
      {"--plateau-on", options.schedule == ScheduleKind::plateau, "--schedule plateau"},
      {"--loss-scale", options.precision == Precision::fp16,
       "--precision fp16: others have no loss scale"},
      {"--step-epochs", options.schedule == ScheduleKind::step, "--schedule step"},
      {"--step-factor", options.schedule == ScheduleKind::step, "--schedule step"},
      {"--inject-overflow-at",
       options.precision == Precision::fp16 && options.loss_scale.kind != LossScale::Kind::none,
       "--precision fp16 with a loss scale"},
  };
  for (const Need& need : needs) {
    if (!need.is_met && contains(given, need.option))
      throw DataError(fmt::format("{} needs {}", need.option, need.what));
  }
}

void convert(const Texts& texts, const std::vector<std::string>& given, Options& options) {
  // With sgd it does not learn.
  if (reads_texts(options.model) && !contains(given, "--optimizer"))
    options.optimizer = OptimizerKind::adamw;
  check_init(options);
  options.normal_init = parse_init(texts.init);
  options.checkpoint_every = parse_checkpoint_every(texts.checkpoint_every);
  convert_optimizer_texts(texts.optimizer, options);
  generated_shape(options);
}

}  // namespace

ImageShape generated_shape(const Options& options) {
  const char* usual = target_of(options.model) == Target::mask ? "32x32x3" : "28x28x1";
  if (is_unet_resnet(options.model) || options.model == ModelName::alexnet) usual = "64x64x3";
  return parse_image_shape(options.image_shape.value_or(usual));
}

double dropout_of(const Options& options) {
  return options.dropout.value_or(default_dropout(options.model));
}

std::string to_string(ModelName model) { return std::string(word_of(model)); }
std::string to_string(Stem stem) { return std::string(word_of(stem)); }
std::string to_string(Decoder decoder) { return std::string(word_of(decoder)); }
std::string to_string(TextSize size) { return std::string(word_of(size)); }
std::string to_string(Precision precision) { return std::string(word_of(precision)); }

std::variant<Options, EarlyExit> parse_options(const std::vector<std::string>& arguments,
                                               const std::function<std::string()>& gpu_versions) {
  Options options;
  Texts texts;
  CommandLine line(program_text(), help_command(), [&gpu_versions] {
    return ddprun::version_text("train") + "compute: " + compute_description() + "\n" +
           gpu_versions();
  });
  add_data_options(line, options, texts);
  add_batch_options(line, options);
  add_optimizer_options(line, options, texts.optimizer);
  add_machine_options(line, options);
  add_checkpoint_options(line, options, texts);
  if (auto end = line.parse(arguments))
    return EarlyExit{end->wrong ? kExitUsage : kExitSuccess, std::move(end->text)};
  try {
    convert(texts, line.given(), options);
    check_given(line.given(), options);
  } catch (const DataError& error) {
    return EarlyExit{kExitUsage, line.wrong(error.what()).text};
  }
  return options;
}

}  // namespace ddprun::trainer
