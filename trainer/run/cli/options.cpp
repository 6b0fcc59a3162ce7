#include "trainer/run/cli/options.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <system_error>

#include "base/number_in.hpp"
#include "base/program_folder.hpp"
#include "base/version.hpp"
#include "proto/environment_names.hpp"
#include "texts/cli/command_line.hpp"
#include "trainer/error.hpp"
#include "trainer/host/host_device.hpp"
#include "trainer/run/cli/option_groups.hpp"
#include "trainer/run/cli/option_synonyms.hpp"
#include "trainer/run/cli/program_text.hpp"
#include "trainer/run/exit_codes.hpp"

namespace ddprun::trainer {

constexpr auto words_for(DeviceKind) {
  using enum DeviceKind;
  return std::array{Word{automatic, "auto"}, Word{cpu, "cpu"}, Word{cuda, "cuda"}};
}

constexpr auto words_for(Parallel) {
  using enum Parallel;
  return std::array{Word{ddp, "ddp"}, Word{dp, "dp"}};
}

constexpr auto words_for(CudaGraph) {
  using enum CudaGraph;
  return std::array{Word{automatic, "auto"}, Word{off, "off"}};
}

constexpr auto words_for(Resume) {
  using enum Resume;
  return std::array{Word{automatic, "auto"}, Word{strict, "strict"}, Word{never, "never"}};
}

constexpr auto words_for(BestBy) {
  using enum BestBy;
  return std::array{Word{accuracy, "accuracy"}, Word{iou, "iou"}, Word{f1, "f1"},
                    Word{loss, "loss"}};
}

namespace {

constexpr int kLocalRankMax = 1'000'000;

/// What is read before it becomes Options.
struct Texts {
  DataTexts data;
  OptimizerTexts optimizer;
  std::string checkpoint_every = "auto";
  std::string keep = "2";
  std::optional<std::string> resume_from;
};

/// How this program's help is called: an installed one is in libexec, where only ddprun finds it.
std::string help_command() {
  const bool in_libexec = program_folder().parent_path().filename() == "libexec";
  return in_libexec || std::getenv(proto::env::kRunId) != nullptr ? "ddprun train --help"
                                                                  : "train --help";
}

void add_batch_options(CommandLine& line, Options& options) {
  line.group("Batches");
  CLI::Option* batch =
      line.number("--batch", options.batches.batch, 1, kManyMax, "N", "b: samples of one shard")
          ->default_str("64");
  line.number("--global-batch", options.batches.global_batch, 1, 1'000'000'000, "N",
              "Samples of all shards together, V x b; not with --batch")
      ->excludes(batch);
  line.number("--shards", options.batches.shards, 1, kShardsMax, "N",
              "V: shards of a global batch, at least one for each worker; fixed for the run and "
              "kept in its checkpoints: with more workers than V a run does not go on, but begins "
              "anew")
      ->default_str("the number of workers at the start, or of all that may come, x --accumulate");
  line.number("--accumulate", options.batches.accumulate, 0, kShardsMax, "N",
              "Shards that each worker or replica computes before an update; 1: no accumulation; "
              "not with --shards");
}

void add_machine_options(CommandLine& line, Options& options) {
  line.group("Machine");
  line.choice("--device", options.device.kind,
              "Where to train: auto takes the GPU of LOCAL_RANK where there is one that can be "
              "used, else the CPU");
  line.choice(
      "--parallel", options.device.parallel,
      "ddp: workers with a device each add up their gradients. dp: one worker with several "
      "replicas, as torch.nn.DataParallel: copies the weights to them in each step, gathers "
      "their outputs, and computes loss and update on the first one. On the CPU");
  line.number("--replicas", options.device.replicas, 1, 1024, "N",
              "With --parallel dp, which needs it: replicas of the model. V is this number x "
              "--accumulate; --batch is of one replica, --global-batch what DataParallel calls the "
              "batch");
  line.flag("--no-deterministic", options.device.no_deterministic,
            "On a GPU: also algorithms with bits that change from run to run");
  line.flag("--exact", options.device.exact,
            "On GPUs: the same bits for any number of workers, as on CPUs; takes more memory and "
            "is slower");
  line.choice("--cuda-graph", options.device.cuda_graph,
              "On a GPU: give it a step as a few CUDA graphs, not as hundreds of launches, where "
              "they can be captured");
  line.number(
      "--local-rank", options.device.local_rank, -1, kLocalRankMax, "N",
      "What torch.distributed.launch adds to the options of its program. LOCAL_RANK counts; "
      "another number than that is refused");
  line.number("--threads-per-shard", options.device.threads_per_shard, 1, 1024, "N",
              "Threads that compute one shard; another number changes the last bits of the result");
  line.number("--lanes", options.device.lanes, 1, 1024, "N",
              "Shards that one worker computes side by side")
      ->default_str("as many as it has cores for");
  line.number("--bucket-mb", options.comm.bucket_mb, 0.001, 1e6, "X",
              "Gradients are summed in buckets of this size, overlapped with backward");
  constexpr std::chrono::nanoseconds kLeast{1};
  line.duration("--comm-timeout", options.comm.timeout, kLeast,
                "How long to wait for another worker that lives but does not answer, and for a GPU "
                "that hangs. Units are ms, "
                "s, m and h: 30, 0.5, 500ms, 2m");
  line.duration("--rendezvous-timeout", options.comm.rendezvous_timeout, kLeast,
                "How long to wait at the start for the store and for the other workers");
}

void add_checkpoint_options(CommandLine& line, Options& options, Texts& texts) {
  line.group("Checkpoints and output");
  line.text("--out", options.checkpoints.out, "DIR", "Directory of checkpoints and metrics.jsonl")
      ->default_str("ddprun-out/DATE_TIME; see below");
  line.choice("--resume", options.checkpoints.resume,
              "auto: go on from the newest usable checkpoint, with a warning for each newer one "
              "that is damaged or of another run; strict: fail where auto would skip one; never: "
              "from step 0, also after a restart");
  line.flag("--eval", options.eval,
            "Train nothing: evaluate the weights of --resume-from on the held-out samples, with "
            "figures for each class");
  line.text("--resume-from", texts.resume_from, "PATH",
            "With --eval: a checkpoint, the directory of a run (its best checkpoint counts), or a "
            "safetensors file. Options of the model that are not given are taken from it");
  line.text("--checkpoint-every", texts.checkpoint_every, "WHEN",
            "auto (a crash costs at most 5 s of work, writing less than 2 % of the time), epoch, a "
            "number of steps, a duration such as 30s, or off");
  line.choice(
          "--best", options.checkpoints.best_by,
          "What the best checkpoint is chosen by, on held-out samples: the largest, of loss the "
          "smallest")
      ->default_str("accuracy, of masks iou");
  line.text("--keep", texts.keep, "N|all", "Checkpoints to keep beside the best one");
  line.number("--log-every", options.report.log_every, 1, kStepsMax, "N",
              "A JSON line after every N steps, with the mean loss over them")
      ->default_str("about one a second");
  line.flag("--tensorboard", options.report.tensorboard,
            "Write an event file for TensorBoard beside metrics.jsonl: the same figures as curves");
  line.flag("--json", options.report.json, "JSON lines on stdout instead of text");
  line.flag("--quiet", options.report.quiet, "Only the final table");
}

/// They are no promise to users, so no help and no page has them.
void add_test_options(CommandLine& line, Options& options) {
  line.group("");
  line.flag("--share-gpu", options.device.share_gpu, "Several workers may use one GPU");
  line.number("--inject-overflow-at", options.precision.inject_overflow_at, 0, kStepsMax, "STEP",
              "With --precision fp16: make the gradients of this step infinite");
}

bool contains(const std::vector<std::string>& given, const char* option) {
  return std::find(given.begin(), given.end(), option) != given.end();
}

void check_needs(const std::vector<std::string>& given, const std::vector<OptionNeed>& needs) {
  for (const OptionNeed& need : needs) {
    if (!need.is_met && contains(given, need.option))
      throw DataError(fmt::format("{} needs {}", need.option, need.what));
  }
}

/// Why there is none: --parallel dp leaves no other device.
const char* a_gpu_but(Parallel parallel) {
  return parallel == Parallel::dp ? "a GPU, but --parallel dp trains on the CPU"
                                  : "a GPU, but --device is cpu";
}

bool learns_masks(const Options& options) { return target_of(options.model.name) == Target::mask; }

bool is_of_masks(std::optional<BestBy> best_by) {
  return best_by == BestBy::iou || best_by == BestBy::f1;
}

/// V is one of them.
void check_shards(const std::vector<std::string>& given, const Options& options) {
  if (options.batches.accumulate == 0) {
    throw DataError(fmt::format(
        "--accumulate 0: must be a number from 1 to {}: 1 is no accumulation, and the default",
        kShardsMax));
  }
  if (!options.batches.shards || !contains(given, "--accumulate")) return;
  throw DataError(
      fmt::format("--shards {} and --accumulate {} cannot be given together: --shards is V, which "
                  "--accumulate makes of the number of workers or replicas: leave out one of them",
                  *options.batches.shards, options.batches.accumulate));
}

/// Options that would do nothing beside the others.
void check_given(const std::vector<std::string>& given, const Options& options) {
  check_shards(given, options);
  check_needs(given, data_needs(options));
  check_needs(given, optimizer_needs(options));
  const bool is_dp = options.device.parallel == Parallel::dp;
  const char* const a_gpu = a_gpu_but(options.device.parallel);
  check_needs(
      given,
      {
          {"--no-deterministic", options.device.kind != DeviceKind::cpu, a_gpu},
          {"--exact", options.device.kind != DeviceKind::cpu,
           is_dp ? "a GPU, but --parallel dp trains on the CPU, which is exact"
                 : "a GPU, but --device is cpu, which is exact"},
          {"--share-gpu", options.device.kind != DeviceKind::cpu, a_gpu},
          {"--cuda-graph", options.device.kind != DeviceKind::cpu, a_gpu},
          {"--replicas", is_dp, "--parallel dp"},
          {"--lanes", !is_dp, "--parallel ddp: with dp each replica has one"},
          {"--bucket-mb", !is_dp, "--parallel ddp: dp adds up gradients when backward is done"},
          {"--best", options.checkpoints.best_by != BestBy::accuracy || !learns_masks(options),
           "a --model that learns labels for accuracy: a U-Net has iou, f1 and loss"},
          {"--best", !is_of_masks(options.checkpoints.best_by) || learns_masks(options),
           "a U-Net for iou and f1, which are measured on masks: here it is accuracy or loss"},
          {"--log-every",
           options.checkpoints.every.kind != CheckpointEvery::Kind::off ||
               !options.checkpoints.out.empty() || (options.report.json && !options.report.quiet),
           "--json, or a folder for metrics.jsonl: --out"},
          {"--tensorboard",
           options.checkpoints.every.kind != CheckpointEvery::Kind::off ||
               !options.checkpoints.out.empty(),
           "a folder for the event file: --out"},
          {"--keep", options.checkpoints.every.kind != CheckpointEvery::Kind::off,
           "checkpoints, but --checkpoint-every is off"},
      });
}

int parse_keep(const std::string& text) {
  if (text == "all") return std::numeric_limits<int>::max();
  const auto count = number_in<int>(text);
  if (count && *count >= 1 && *count <= kManyMax) return *count;
  throw DataError(fmt::format("--keep {}: must be all, or a number from 1 to {}", text, kManyMax));
}

void use_resume_from(const Texts& texts, Options& options) {
  if (options.eval && !texts.resume_from)
    throw DataError("--eval needs --resume-from: the weights to evaluate");
  if (!options.eval && texts.resume_from)
    throw DataError(
        "--resume-from needs --eval. To train on, --out=DIR goes on in the directory of a run, and "
        "--init-from=FILE begins a new run with the weights of a file");
  if (options.eval && options.model.init_from)
    throw DataError("--init-from is for training: --eval reads the weights of --resume-from");
  if (options.eval && !options.model.init_skip.empty())
    throw DataError("--init-skip is for training: --eval needs all weights");
  if (options.eval && options.report.tensorboard)
    throw DataError("--tensorboard is for training: --eval has no curves");
  if (options.eval) options.model.init_from = texts.resume_from;
}

/// Replicas copy from each other's memory, which is the host's.
void convert_parallel(Options& options) {
  if (options.device.parallel == Parallel::ddp || options.eval) return;
  if (options.device.kind == DeviceKind::cuda)
    throw DataError(
        "--parallel dp trains on the CPU, but --device is cuda: use --parallel ddp with one "
        "worker for each GPU (ddprun --nproc-per-node=gpu train)");
  options.device.kind = DeviceKind::cpu;
  if (!options.device.replicas)
    throw DataError("--parallel dp needs --replicas: the number of replicas, such as 2");
}

/// What only training needs is left out. All other options may be given: a command line that
/// trained becomes one that evaluates.
void leave_out_training(Options& options) {
  options.checkpoints.every.kind = CheckpointEvery::Kind::off;
  options.checkpoints.resume = Resume::never;
  options.optimizer.kind = OptimizerKind::sgd;
  options.optimizer.momentum = 0;  // needs no memory for moments
  options.optimizer.nesterov = false;
  options.device.parallel = Parallel::ddp;
  options.device.replicas.reset();
}

void convert(const Texts& texts, const std::vector<std::string>& given, Options& options) {
  use_resume_from(texts, options);
  // With sgd it does not learn.
  if (reads_texts(options.model.name) && !contains(given, "--optimizer"))
    options.optimizer.kind = OptimizerKind::adamw;
  convert_data(texts.data, options);
  convert_optimizer(texts.optimizer, options);
  options.checkpoints.every = parse_checkpoint_every(texts.checkpoint_every);
  options.checkpoints.keep = parse_keep(texts.keep);
  convert_parallel(options);
}

}  // namespace

double dropout_of(const Options& options) {
  return options.model.dropout.value_or(default_dropout(options.model.name));
}

int replicas_of(const Options& options) { return options.device.replicas.value_or(1); }

std::string to_string(Precision precision) { return std::string(word_of(precision)); }

namespace {

/// Options and values of other trainers.
void add_other_names(CommandLine& line) {
  for (const auto& [here, names] : kOptionSynonyms) {
    for (const auto name : words_of(names)) line.other_name(std::string(name), std::string(here));
  }
  for (const auto& [here, names] : kModelSynonyms) {
    for (const auto name : words_of(names))
      line.other_value("--model", std::string(name), std::string(here));
  }
  for (const auto& [why, names] : kNotNeeded) {
    for (const auto name : words_of(names)) line.not_needed(std::string(name), std::string(why));
  }
}

}  // namespace

std::variant<Options, EarlyExit> parse_options(const std::vector<std::string>& arguments,
                                               const std::function<std::string()>& gpu_versions) {
  Options options;
  Texts texts;
  CommandLine line(program_text(), help_command(), [&gpu_versions] {
    return ddprun::version_text("train") + "compute: " + compute_description() + "\n" +
           gpu_versions();
  });
  add_data_options(line, options, texts.data);
  add_batch_options(line, options);
  add_optimizer_options(line, options, texts.optimizer);
  add_machine_options(line, options);
  add_checkpoint_options(line, options, texts);
  add_test_options(line, options);
  add_other_names(line);
  if (auto end = line.parse(arguments))
    return EarlyExit{end->wrong ? kExitUsage : kExitSuccess, std::move(end->text)};
  try {
    convert(texts, line.given(), options);
    check_given(line.given(), options);
    if (options.eval) leave_out_training(options);
  } catch (const DataError& error) {
    return EarlyExit{kExitUsage, line.wrong(error.what()).text};
  }
  return options;
}

}  // namespace ddprun::trainer
