#include "trainer/run/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainer/comm/shard_tree.hpp"
#include "trainer/compute/buffer.hpp"
#include "trainer/data/load.hpp"
#include "trainer/data/sampler.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kBatch = 64;

int choose_shards(const Options& options, const WorkerEnvironment& environment,
                  std::optional<int> shards_there) {
  // A run that begins with few of its workers keeps its V when the others come.
  const int workers = std::max(environment.world_size, environment.max_world_size);
  const int devices = options.device.parallel == Parallel::dp ? replicas_of(options) : workers;
  const int shards =
      options.batches.shards.value_or(shards_there.value_or(devices * options.batches.accumulate));
  const int replicas = replicas_of(options);
  if (shards % replicas != 0 && !options.batches.shards) {
    int fitting = std::min(replicas, shards);
    while (shards % fitting != 0) --fitting;
    throw DataError(
        fmt::format("--replicas is {} here, but a step has {} shards (V) there, which {} does not "
                    "divide: give --replicas={} to go on with it",
                    replicas, shards, replicas, fitting));
  }
  if (shards % replicas != 0) {
    throw DataError(
        fmt::format("--replicas {} does not divide the {} shards of a step: give a divisor of {}, "
                    "or begin a new run with another --shards",
                    replicas, shards, shards));
  }
  if (shards < environment.world_size) {
    throw DataError(
        fmt::format("{} too few for {} workers, as each computes at least one: start at most {}, "
                    "or begin a new "
                    "run with --shards={} or more",
                    shards == 1 ? "1 shard is" : fmt::format("{} shards are", shards),
                    environment.world_size, shards, environment.world_size));
  }
  return shards;
}

int choose_batch(const Options& options, int shards) {
  if (!options.batches.global_batch) return options.batches.batch.value_or(kBatch);
  if (*options.batches.global_batch % shards != 0 && shards == replicas_of(options)) {
    throw DataError(fmt::format(
        "--replicas {} does not divide --global-batch {}: give a multiple of {}, or --batch",
        shards, *options.batches.global_batch, shards));
  }
  if (*options.batches.global_batch % shards != 0) {
    throw DataError(fmt::format(
        "--global-batch {} is not divisible by the {} shards: give a multiple of {}, or --batch",
        *options.batches.global_batch, shards, shards));
  }
  return *options.batches.global_batch / shards;
}

/// The rule "n times the samples, n times the rate", where it is asked for.
double scaled_rate(const Options& options, const TrainPlan& plan) {
  const double rate = base_rate(options);
  if (!options.optimizer.scale_lr) return rate;
  return rate * (static_cast<double>(plan.shards) * plan.batch) / *options.optimizer.scale_lr;
}

/// A share is rounded up, as in transformers.
std::int64_t warmup_steps(const Warmup& warmup, std::int64_t total_steps) {
  if (warmup.share == 0) return warmup.steps;
  return static_cast<std::int64_t>(std::ceil(warmup.share * static_cast<double>(total_steps)));
}

/// As it is typed.
ConfigEntry::Value warmup_value(const Schedule& schedule) {
  if (schedule.warmup_steps == 0 || schedule.warmup_begin == 0) return schedule.warmup_steps;
  return fmt::format("{}+{}", schedule.warmup_steps, schedule.warmup_begin);
}

ScalerConfig scaler_config(const Options& options) {
  ScalerConfig config;
  config.enabled = options.precision.format == Precision::fp16 &&
                   options.precision.loss_scale.kind != LossScale::Kind::none;
  if (options.precision.loss_scale.kind == LossScale::Kind::fixed) {
    config.initial = config.ceiling = config.floor = options.precision.loss_scale.value;
    config.growth = config.backoff = 1;
  }
  return config;
}

ConfigEntry identity(const char* name, ConfigEntry::Value value) {
  return {.name = name, .value = std::move(value), .identity = true};
}
ConfigEntry setting(const char* name, ConfigEntry::Value value) {
  return {.name = name, .value = std::move(value), .identity = false};
}
std::int64_t integer(auto value) { return static_cast<std::int64_t>(value); }

ConfigEntry::Value loss_scale_value(const LossScale& scale) {
  switch (scale.kind) {
    case LossScale::Kind::dynamic:
      return "dynamic";
    case LossScale::Kind::none:
      return 0.0;
    case LossScale::Kind::fixed:
      break;
  }
  return double{scale.value};
}

RunConfig make_config(const Options& options, const TrainPlan& plan, const DataFacts& data) {
  const auto content = [&](const char* name, const std::string& hash) {
    return ConfigEntry{.name = name, .value = hash, .identity = true, .title = data.name};
  };
  RunConfig config{
      identity("model", to_string(options.model.name)),
      identity("dropout", dropout_of(options)),
      identity("stem", to_string(options.model.stem)),
      identity("decoder", to_string(options.model.decoder)),
      identity("positive_weight", positive_weight_of(options, data)),
      content("data", data.content),
      content("test_data", data.test_content),
      identity("samples", integer(data.samples)),
      identity("classes", integer(head_classes(options, data))),
      identity("shards", integer(plan.shards)),
      identity("batch", integer(plan.batch)),
      identity("threads_per_shard", integer(options.device.threads_per_shard)),
      identity("precision", to_string(options.precision.format)),
      identity("optimizer", to_string(options.optimizer.kind)),
      identity("seed", integer(options.seed)),
      setting("lr", plan.schedule.base_rate),
      setting("weight_decay", weight_decay_of(options)),
      setting("schedule", to_string(options.schedule.kind)),
      setting("warmup", warmup_value(plan.schedule)),
  };
  if (reads_texts(options.model.name)) {
    config.push_back(identity("size", to_string(options.model.size)));
    config.push_back(identity("vocabulary", integer(data.text.vocabulary)));
    if (!is_generated(options))
      config.push_back(identity("tokens", to_string(options.data.tokens)));
  } else {
    config.push_back(identity("image_shape", to_string(data.shape)));
  }
  if (!data.initial_weights.empty()) {
    config.push_back({.name = kInitFromEntry,
                      .value = data.initial_weights,
                      .identity = true,
                      .title = options.model.init_from.value_or("")});
  }
  const RunConfig usual = later_entries({});
  for (ConfigEntry& entry : later_entries(options))
    if (std::find(usual.begin(), usual.end(), entry) == usual.end())
      config.push_back(std::move(entry));
  // Elsewhere they change no bit.
  if (plan.replicas > 1 && has_batch_norm(options.model.name))
    config.push_back(setting("replicas", integer(plan.replicas)));
  if (options.optimizer.kind == OptimizerKind::sgd)
    config.push_back(setting("momentum", options.optimizer.momentum));
  if (options.schedule.kind == ScheduleKind::step) {
    config.push_back(setting("step_epochs", integer(options.schedule.step_epochs)));
    config.push_back(setting("step_factor", options.schedule.step_factor));
  }
  if (options.schedule.kind == ScheduleKind::cosine ||
      options.schedule.kind == ScheduleKind::linear) {
    config.push_back(setting("epochs", integer(options.batches.epochs)));
  }
  if (options.schedule.kind == ScheduleKind::plateau) {
    config.push_back(setting("plateau_on", to_string(options.schedule.plateau_on)));
    config.push_back(setting("plateau_patience", options.schedule.plateau.patience));
    config.push_back(setting("plateau_factor", options.schedule.plateau.factor));
  }
  return config;
}

}  // namespace

RunConfig later_entries(const Options& options) {
  const PreparationSettings& preparation = options.data.preparation;
  const Normalize& normalize = preparation.normalize;
  return {
      identity("crop", preparation.crop ? to_string(*preparation.crop) : ""),
      identity("flip", integer(preparation.flip)),
      {.name = "normalize",
       .value = normalize.values ? to_string(*normalize.values) : normalize.text,
       .identity = true,
       .title = normalize.values ? normalize.text : ""},
      identity("init", options.model.normal_init
                           ? fmt::format("normal:{}", *options.model.normal_init)
                           : "default"),
      setting("decay", to_string(options.optimizer.decay)),
      setting("nesterov", integer(options.optimizer.nesterov)),
      setting("betas",
              fmt::format("{},{}", options.optimizer.betas[0], options.optimizer.betas[1])),
      setting("eps", options.optimizer.epsilon),
      setting("loss_scale", loss_scale_value(options.precision.loss_scale)),
      setting("grad_clip", options.optimizer.grad_clip),
  };
}

DataFacts facts_of(const DataSet& train, const DataSet& test) {
  return {.name = train.name(),
          .content = hash_text(train.content_hash()),
          .test_content = hash_text(test.content_hash()),
          .samples = train.size(),
          .shape = image_shape(train),
          .classes = train.classes(),
          .text = text_shape(train),
          .mask_pixels = train.images() == nullptr ? 0 : train.images()->mask_pixels()};
}

double positive_weight_of(const Options& options, const DataFacts& data) {
  if (options.model.positive_weight) return *options.model.positive_weight;
  if (data.mask_pixels == 0)
    throw DataError(fmt::format(
        "--pos-weight auto: no pixel of {} belongs to a mask: look at the masks, or give a number",
        data.name));
  const double all = static_cast<double>(data.samples) * static_cast<double>(mask_size(data.shape));
  const auto inside = static_cast<double>(data.mask_pixels);
  if (inside == all)
    throw DataError(fmt::format(
        "--pos-weight auto: all pixels of {} belong to masks: look at the masks, or give a number",
        data.name));
  return (all - inside) / inside;
}

void check_parallel(const Options& options, const WorkerEnvironment& environment) {
  if (options.device.local_rank.value_or(-1) >= 0 &&
      options.device.local_rank != environment.local_rank) {
    throw DataError(fmt::format(
        "--local-rank {}: LOCAL_RANK, which the launcher sets, is {}: leave out --local-rank, and "
        "start several workers by ddprun --nproc-per-node=N train",
        *options.device.local_rank, environment.local_rank));
  }
  if (options.device.parallel == Parallel::ddp || environment.world_size == 1) return;
  throw DataError(fmt::format(
      "--parallel dp is for one worker with {} replicas, but WORLD_SIZE is {}: start one "
      "worker, or leave out --parallel: several workers train by ddp",
      replicas_of(options), environment.world_size));
}

TrainPlan make_plan(const Options& options, const WorkerEnvironment& environment,
                    const DataFacts& data, std::optional<int> shards_there) {
  TrainPlan plan;
  plan.shards = choose_shards(options, environment, shards_there);
  plan.batch = choose_batch(options, plan.shards);
  plan.replicas = replicas_of(options);
  plan.steps_per_epoch =
      static_cast<std::int64_t>(steps_per_epoch(data.samples, plan.shards, plan.batch));
  plan.total_steps = plan.steps_per_epoch * options.batches.epochs;
  plan.last_step = std::min(plan.total_steps, options.batches.max_steps.value_or(plan.total_steps));
  plan.schedule = {.kind = options.schedule.kind,
                   .base_rate = scaled_rate(options, plan),
                   .warmup_steps = warmup_steps(options.schedule.warmup, plan.total_steps),
                   .warmup_begin = options.schedule.warmup.begin,
                   .step_every = plan.steps_per_epoch * options.schedule.step_epochs,
                   .step_factor = options.schedule.step_factor,
                   .total_steps = plan.total_steps,
                   .final_rate = 0,
                   .plateau = options.schedule.plateau};
  plan.scaler = scaler_config(options);
  plan.config = make_config(options, plan, data);
  const bool by_steps = options.checkpoints.every.kind == CheckpointEvery::Kind::steps;
  plan.loop = {
      {"epochs_in_all", std::int64_t{options.batches.epochs}, true},
      {"last_step", plan.last_step, true},
      {"checkpoint_every_steps", by_steps ? options.checkpoints.every.steps : 0, true},
      {"log_every", options.report.log_every, true},
      {"best_by",
       std::int64_t{options.checkpoints.best_by ? static_cast<int>(*options.checkpoints.best_by)
                                                : -1},
       true},
      {"bucket_mb", options.comm.bucket_mb, true},
      {"has_init_from", std::int64_t{options.model.init_from ? 1 : 0}, true},
      {"inject_overflow_at", options.precision.inject_overflow_at.value_or(-1), true},
  };
  return plan;
}

int head_classes(const Options& options, const DataFacts& data) {
  const int classes = options.model.classes.value_or(data.classes);
  if (classes < data.classes) {
    throw DataError(
        fmt::format("--classes {}: {} has {} classes, so the head needs at least as many outputs: "
                    "--classes={}",
                    classes, data.name, data.classes, data.classes));
  }
  return classes;
}

OptimizerConfig optimizer_config(const Options& options) {
  OptimizerConfig config;
  config.kind = options.optimizer.kind;
  config.weight_decay = weight_decay_of(options);
  config.decays_all = options.optimizer.decay == Decay::all;
  config.momentum = options.optimizer.momentum;
  config.nesterov = options.optimizer.nesterov;
  config.beta1 = options.optimizer.betas[0];
  config.beta2 = options.optimizer.betas[1];
  config.epsilon = options.optimizer.epsilon;
  config.clip_norm = options.optimizer.grad_clip;
  return config;
}

PlateauState plateau_after(const std::vector<EpochSummary>& epochs, const Options& options,
                           const Schedule& schedule) {
  PlateauState state;
  if (schedule.kind != ScheduleKind::plateau) return state;
  const bool is_held_out = options.schedule.plateau_on == PlateauOn::held_out;
  for (const EpochSummary& epoch : epochs)
    state = after_epoch(schedule.plateau, state, is_held_out ? epoch.test_loss : epoch.train_loss,
                        schedule.base_rate);
  return state;
}

std::optional<int> shards_of(const RunConfig& config) {
  for (const ConfigEntry& entry : config) {
    const auto* value = std::get_if<std::int64_t>(&entry.value);
    if (entry.name == "shards" && value != nullptr && *value >= 1 && *value <= kShardsMax) {
      return static_cast<int>(*value);
    }
  }
  return std::nullopt;
}

int choose_lanes(const Options& options, const WorkerEnvironment& environment, int cores,
                 int shards_mine) {
  if (options.device.parallel == Parallel::dp) return replicas_of(options);
  const int room = cores / environment.local_world_size / options.device.threads_per_shard;
  return std::clamp(options.device.lanes.value_or(room), 1, std::max(1, shards_mine));
}

std::vector<std::string> advice_on(const Options& options, const WorkerEnvironment& environment,
                                   const TrainPlan& plan, int cores) {
  std::vector<std::string> lines;
  const std::int64_t warmup = plan.schedule.warmup_steps;
  if (warmup > 0 && warmup - plan.schedule.warmup_begin >= plan.last_step) {
    lines.push_back(fmt::format(
        "--warmup {}: the run ends after {} step{}, so its learning rate never reaches --lr: use "
        "fewer warm-up steps",
        options.schedule.warmup.share > 0
            ? fmt::format("{:g}%", 100 * options.schedule.warmup.share)
            : fmt::format("{}", warmup),
        plan.last_step, plan.last_step == 1 ? "" : "s"));
  }
  if (cores == kNoCores) return lines;
  const int workers = environment.local_world_size;
  const ShardRun run = shard_run(plan.shards, environment.world_size, environment.rank);
  const int lanes = choose_lanes(options, environment, cores, run.count);
  const int threads = workers * options.device.threads_per_shard * lanes;
  // More workers than cores, with a thread each, is their launcher's choice.
  if (threads > cores && threads > workers) {
    std::string factors;
    if (lanes > 1)
      factors += fmt::format("--{} {} x ",
                             options.device.parallel == Parallel::dp ? "replicas" : "lanes", lanes);
    if (options.device.threads_per_shard > 1)
      factors += fmt::format("--threads-per-shard {} x ", options.device.threads_per_shard);
    lines.push_back(fmt::format(
        "{}{} worker{} on this machine = {} threads, more than its {} core{}, which is slower than "
        "a thread for each core: give fewer of them",
        factors, workers, workers == 1 ? "" : "s", threads, cores, cores == 1 ? "" : "s"));
  }
  return lines;
}

}  // namespace ddprun::trainer
