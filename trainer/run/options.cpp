#include "trainer/run/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/option_text.hpp"
#include "base/version.hpp"
#include "proto/environment_names.hpp"
#include "trainer/compute/description.hpp"
#include "trainer/data/load.hpp"
#include "trainer/error.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/man_page.hpp"
#include "trainer/run/option_names.hpp"

namespace ddprun::trainer {
namespace {

constexpr double kSgdRate = 0.05;
constexpr double kAdamwRate = 0.001;

constexpr const char* kDescription =
    "Trains a small network with distributed data parallelism on the CPU.\n"
    "\n"
    "  train                                         alone, on generated pictures\n"
    "  ddprun --nproc_per_node=2 train               two workers\n"
    "  ddprun --nproc_per_node=2 train --data DIR    MNIST or Fashion-MNIST files\n"
    "\n"
    "A global batch is always V shards of b samples. The number of workers only decides who\n"
    "computes which shard: the same V and b give the same weights, to the last bit, with 1, 2 or "
    "4\n"
    "workers, with accumulation, and across restarts.\n";

constexpr const char* kFooter =
    "Checkpoints and restarts: a worker group that the launcher starts again goes on from its\n"
    "newest whole checkpoint by itself. Without --out, checkpoints belong to one run id\n"
    "(ddprun-out/RUN_ID), so a new run starts fresh. With --out DIR, the directory is the run: "
    "the\n"
    "same DIR goes on where it stopped, with any number of workers.\n"
    "\n"
    "Exit codes: 0 done; 1 failed; 2 unusable options, data or checkpoint; 75 another worker was "
    "lost.\n";

/// A check with its own words, and without a long name in the help.
template <class T>
CLI::Validator between(T low, T high) {
  const auto check = [low, high](const std::string& text) {
    T value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool good = error == std::errc() && stop == end && value >= low && value <= high;
    return good ? std::string()
                : fmt::format("must be a number from {} to {}, not {}", low, high, text);
  };
  return CLI::Validator(check, "", "");
}

CLI::Validator one_of(std::vector<std::string> words) {
  const auto check = [words = std::move(words)](const std::string& text) {
    const bool known = std::find(words.begin(), words.end(), text) != words.end();
    return known ? std::string()
                 : fmt::format("must be one of {}, not {}", fmt::join(words, ", "), text);
  };
  return CLI::Validator(check, "", "");
}

/// How this program's help is called: an installed one is in libexec, where only ddprun finds it.
std::string help_command() {
  std::error_code failed;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  const bool in_libexec = folder.parent_path().filename() == "libexec";
  return in_libexec || std::getenv(proto::env::kRunId) != nullptr ? "ddprun train --help"
                                                                  : "train --help";
}

EarlyExit usage_error(const std::string& message) {
  return {.code = kExitUsage, .text = fmt::format("train: {}\n", message)};
}

const std::vector<std::string> kOptimizers = {"sgd", "adamw"};
const std::vector<std::string> kSchedules = {"constant", "step", "cosine"};
const std::vector<std::string> kPrecisions = {"fp32", "bf16", "fp16"};
const std::vector<std::string> kResumes = {"auto", "strict", "never"};
const std::vector<std::string> kShells = {"bash", "zsh", "fish"};

/// What CLI11 fills in before it becomes Options.
struct Texts {
  std::string optimizer = "sgd";
  std::string schedule = "cosine";
  std::string precision = "fp32";
  std::string resume = "auto";
  std::string checkpoint_every = "auto";
  std::string comm_timeout = "60s";
  std::string rendezvous_timeout = "30s";
};

void add_data_options(CLI::App& app, Options& options) {
  app.add_option("--model", options.model, "Network to train: lenet")
      ->type_name("NAME")
      ->group("What to train")
      ->capture_default_str();
  app.add_option("--data", options.data,
                 "`generated` (ten kinds of shapes, drawn when needed), or a folder with\n"
                 "train-images-idx3-ubyte[.gz], train-labels-idx1-ubyte[.gz] and the t10k ones")
      ->type_name("DIR")
      ->group("What to train")
      ->capture_default_str();
  app.add_option("--image-shape", options.image_shape, "Of generated pictures: 28x28x1 or 32x32x3")
      ->type_name("HxWxC")
      ->group("What to train")
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "Passes over the training set")
      ->type_name("N")
      ->group("What to train")
      ->check(between(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--max-steps", options.max_steps,
                 "Stop after so many steps (the learning rate still follows --epochs)")
      ->type_name("N")
      ->group("What to train")
      ->check(between(std::int64_t{1}, std::int64_t{1} << 60));
}

void add_batch_options(CLI::App& app, Options& options) {
  const char* group = "Batches";
  auto* batch = app.add_option("--batch", options.batch, "b: samples of one shard [64]")
                    ->type_name("N")
                    ->group(group)
                    ->check(between(1, 1'000'000));
  app.add_option("--global-batch", options.global_batch,
                 "Samples of all shards together, V x b; not with --batch")
      ->type_name("N")
      ->group(group)
      ->excludes(batch)
      ->check(between(1, 1'000'000'000));
  app.add_option("--shards", options.shards,
                 "V: shards of a global batch; fixed for the run and kept in its checkpoints\n"
                 "[the first number of workers x --accumulate]")
      ->type_name("N")
      ->group(group)
      ->check(between(1, kShardsMax));
  app.add_option("--accumulate", options.accumulate,
                 "Shards that each worker computes before an update, when --shards is not given")
      ->type_name("N")
      ->group(group)
      ->check(between(1, kShardsMax))
      ->capture_default_str();
}

void add_optimizer_options(CLI::App& app, Options& options, Texts& texts) {
  const char* group = "Optimizer";
  app.add_option("--optimizer", texts.optimizer, "sgd or adamw")
      ->type_name("NAME")
      ->group(group)
      ->check(one_of(kOptimizers))
      ->capture_default_str();
  app.add_option("--lr", options.learning_rate, "Learning rate [sgd 0.05, adamw 0.001]")
      ->type_name("X")
      ->group(group)
      ->check(between(0.0, 1e6));
  app.add_option("--momentum", options.momentum, "Of sgd")
      ->type_name("X")
      ->group(group)
      ->check(between(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--weight-decay", options.weight_decay, "Not applied to biases")
      ->type_name("X")
      ->group(group)
      ->check(between(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--schedule", texts.schedule, "constant, step or cosine; counts steps")
      ->type_name("NAME")
      ->group(group)
      ->check(one_of(kSchedules))
      ->capture_default_str();
  app.add_option("--step-epochs", options.step_epochs,
                 "With --schedule step: multiply the rate every so many epochs")
      ->type_name("N")
      ->group(group)
      ->check(between(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--step-factor", options.step_factor, "With --schedule step: by this factor")
      ->type_name("X")
      ->group(group)
      ->check(between(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--warmup", options.warmup, "Steps in which the rate rises to --lr")
      ->type_name("N")
      ->group(group)
      ->check(between(std::int64_t{0}, std::int64_t{1} << 60))
      ->capture_default_str();
  app.add_option("--precision", texts.precision,
                 "fp32, bf16 or fp16 (with a dynamic loss scale); master weights are fp32")
      ->type_name("NAME")
      ->group(group)
      ->check(one_of(kPrecisions))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the initial weights and the order of samples")
      ->type_name("N")
      ->group(group)
      ->check(between(std::uint64_t{0}, std::uint64_t{1} << 62))
      ->capture_default_str();
}

void add_machine_options(CLI::App& app, Options& options, Texts& texts) {
  const char* group = "Machine";
  app.add_option("--threads-per-shard", options.threads_per_shard,
                 "Threads that compute one shard; part of what fixes the bits of the result")
      ->type_name("N")
      ->group(group)
      ->check(between(1, 1024))
      ->capture_default_str();
  app.add_option("--lanes", options.lanes,
                 "Shards that one worker computes side by side [as many as it has cores for]")
      ->type_name("N")
      ->group(group)
      ->check(between(1, 1024));
  app.add_option("--bucket-mb", options.bucket_mb,
                 "Gradients are summed in buckets of this size, overlapped with backward")
      ->type_name("X")
      ->group(group)
      ->check(between(0.001, 1e6))
      ->capture_default_str();
  app.add_option("--comm-timeout", texts.comm_timeout,
                 "How long to wait for another worker that lives but does not answer")
      ->type_name("TIME")
      ->group(group)
      ->capture_default_str();
  app.add_option("--rendezvous-timeout", texts.rendezvous_timeout,
                 "How long to wait at the start for the store and for the other workers")
      ->type_name("TIME")
      ->group(group)
      ->capture_default_str();
}

void add_checkpoint_options(CLI::App& app, Options& options, Texts& texts) {
  const char* group = "Checkpoints and output";
  app.add_option("--out", options.out,
                 "Directory of checkpoints and metrics.jsonl [ddprun-out/RUN_ID; see below]")
      ->type_name("DIR")
      ->group(group);
  app.add_option(
         "--resume", texts.resume,
         "auto: go on from the newest usable checkpoint, with a warning for each newer one\n"
         "that is damaged or of another run; strict: refuse instead of skipping;\n"
         "never: from step 0, also after a restart")
      ->type_name("WHEN")
      ->group(group)
      ->check(one_of(kResumes))
      ->capture_default_str();
  app.add_option("--checkpoint-every", texts.checkpoint_every,
                 "auto (a crash costs at most 5 s of work, writing less than 2 % of the time), a\n"
                 "number of steps, a duration such as 30s, or off")
      ->type_name("WHEN")
      ->group(group)
      ->capture_default_str();
  app.add_option("--keep", options.keep, "Checkpoints to keep beside the best one")
      ->type_name("N")
      ->group(group)
      ->check(between(1, 1'000'000))
      ->capture_default_str();
  app.add_flag("--json", options.json, "JSON lines on stdout in the place of text")->group(group);
  app.add_flag("--quiet", options.quiet, "Only the final table")->group(group);
  app.add_option("--inject-overflow-at", options.inject_overflow_at,
                 "For tests of --precision fp16: make the gradients of this step infinite")
      ->type_name("STEP")
      ->group("Testing")
      ->check(between(std::int64_t{0}, std::int64_t{1} << 60));
}

void convert(const Texts& texts, Options& options) {
  options.optimizer = texts.optimizer == "sgd" ? OptimizerKind::sgd : OptimizerKind::adamw;
  options.schedule = texts.schedule == "constant" ? ScheduleKind::constant
                     : texts.schedule == "step"   ? ScheduleKind::step
                                                  : ScheduleKind::cosine;
  options.precision = texts.precision == "fp32"   ? Precision::fp32
                      : texts.precision == "bf16" ? Precision::bf16
                                                  : Precision::fp16;
  options.resume = texts.resume == "auto"     ? Resume::automatic
                   : texts.resume == "strict" ? Resume::strict
                                              : Resume::never;
  options.checkpoint_every = parse_checkpoint_every(texts.checkpoint_every);
  options.comm_timeout = parse_duration(texts.comm_timeout, "--comm-timeout");
  options.rendezvous_timeout = parse_duration(texts.rendezvous_timeout, "--rendezvous-timeout");
  parse_image_shape(options.image_shape);
  if (options.inject_overflow_at && options.precision != Precision::fp16) {
    throw DataError("--inject-overflow-at needs --precision fp16: others have no loss scale");
  }
}

}  // namespace

double base_rate(const Options& options) {
  return options.learning_rate.value_or(options.optimizer == OptimizerKind::sgd ? kSgdRate
                                                                                : kAdamwRate);
}

std::string to_string(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp16:
      return "fp16";
  }
  return "";
}

std::string to_string(OptimizerKind kind) { return kind == OptimizerKind::sgd ? "sgd" : "adamw"; }

std::string to_string(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::constant:
      return "constant";
    case ScheduleKind::step:
      return "step";
    case ScheduleKind::cosine:
      return "cosine";
  }
  return "";
}

std::variant<Options, EarlyExit> parse_options(const std::vector<std::string>& arguments) {
  Options options;
  Texts texts;
  const std::string help = help_command();
  CLI::App app(kDescription, "train");
  app.set_help_flag("-h,--help", "This text");
  app.footer(kFooter);
  set_help_format(app, 30);
  bool version = false;
  app.add_flag("--version", version, "Version, compiler, libraries");
  bool man = false;
  app.add_flag("--man", man, "Print the man page (for `man -l -`)");
  std::string shell;
  app.add_option("--completion", shell, "Print the completion of bash, zsh or fish")
      ->type_name("SHELL")
      ->check(one_of(kShells));
  add_data_options(app, options);
  add_batch_options(app, options);
  add_optimizer_options(app, options, texts);
  add_machine_options(app, options, texts);
  add_checkpoint_options(app, options, texts);

  std::vector<std::string> reversed;  // the order that CLI11 wants
  for (auto it = arguments.rbegin(); it != arguments.rend(); ++it) {
    reversed.push_back(with_dashes(*it));
  }
  try {
    app.parse(reversed);
    if (version) {
      return EarlyExit{
          .code = kExitSuccess,
          .text = ddprun::version_text("train") + "compute: " + compute_description() + "\n"};
    }
    const auto all = ddprun::option_texts(app, {{"completion", kShells},
                                                {"optimizer", kOptimizers},
                                                {"precision", kPrecisions},
                                                {"resume", kResumes},
                                                {"schedule", kSchedules}});
    if (man) return EarlyExit{.code = kExitSuccess, .text = ddprun::man_page(kManPage, all)};
    if (!shell.empty()) {
      return EarlyExit{.code = kExitSuccess, .text = ddprun::completion("train", all, shell)};
    }
    convert(texts, options);
  } catch (const CLI::CallForHelp&) {
    return EarlyExit{.code = kExitSuccess, .text = app.help()};
  } catch (const CLI::ExtrasError&) {
    const std::string unknown = app.remaining().empty() ? "" : app.remaining().front();
    const std::string name = unknown.substr(0, unknown.find('='));
    if (!name.starts_with("-")) {
      return usage_error(
          fmt::format("unexpected argument {}; all settings are options, see {}", name, help));
    }
    std::vector<std::string> known;
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& long_name : option->get_lnames()) known.push_back("--" + long_name);
    }
    const std::string nearest = nearest_name(name, known);
    return usage_error(nearest.empty()
                           ? fmt::format("unknown option {}; see {}", name, help)
                           : fmt::format("unknown option {}; did you mean {}?", name, nearest));
  } catch (const CLI::ParseError& error) {
    return usage_error(fmt::format("{} (see {})", parse_error_text(app, error.what()), help));
  } catch (const DataError& error) {
    return usage_error(error.what());
  }
  return options;
}

}  // namespace ddprun::trainer
