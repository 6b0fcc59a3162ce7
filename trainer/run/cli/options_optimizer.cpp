// The group "Optimizer" of the help, and the defaults that depend on other options.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "base/number_in.hpp"
#include "trainer/error.hpp"
#include "trainer/run/cli/option_groups.hpp"

namespace ddprun::trainer {

constexpr auto words_for(OptimizerKind) {
  using enum OptimizerKind;
  return std::array{Word{sgd, "sgd"}, Word{adamw, "adamw"}};
}

constexpr auto words_for(ScheduleKind) {
  using enum ScheduleKind;
  return std::array{Word{constant, "constant"}, Word{step, "step"}, Word{cosine, "cosine"},
                    Word{linear, "linear"}, Word{plateau, "plateau"}};
}

constexpr auto words_for(Decay) {
  using enum Decay;
  return std::array{Word{weights, "weights"}, Word{all, "all"}};
}

constexpr auto words_for(PlateauOn) {
  using enum PlateauOn;
  return std::array{Word{held_out, "held-out"}, Word{train, "train"}};
}

namespace {

constexpr double kSgdRate = 0.05;
constexpr double kAdamwRate = 0.001;
/// textclf at 0.001 stays at the share of its larger class.
constexpr double kTextRate = 0.0005;
constexpr double kAdamwDecay = 0.01;        // PyTorch's
constexpr double kLossScaleMax = 16777216;  // 2^24

Warmup parse_warmup(const std::string& text) {
  constexpr std::string_view kPlusOne = "+1";
  std::string_view length = text;
  const int begin = length.ends_with(kPlusOne) ? 1 : 0;
  if (begin == 1) length.remove_suffix(kPlusOne.size());
  if (length.ends_with('%')) {
    const auto percent = number_in<double>(length.substr(0, length.size() - 1));
    if (percent && *percent >= 0 && *percent <= 100)
      return {.steps = 0, .share = *percent / 100, .begin = begin};
  } else {
    const auto steps = number_in<std::int64_t>(length);
    if (steps && *steps >= 0 && *steps <= kStepsMax)
      return {.steps = *steps, .share = 0, .begin = begin};
  }
  throw DataError(
      fmt::format("--warmup {}: must be a number of steps, such as 500, or a share of all, such as "
                  "6%, with +1 behind it where step 0 is to have a rate above 0",
                  text));
}

std::array<double, 2> parse_betas(const std::string& text) {
  const std::size_t comma = text.find(',');
  if (comma != std::string::npos) {
    const auto first = number_in<double>(std::string_view(text).substr(0, comma));
    const auto second = number_in<double>(std::string_view(text).substr(comma + 1));
    const auto is_decay = [](const std::optional<double>& beta) {
      return beta && *beta >= 0 && *beta < 1;
    };
    if (is_decay(first) && is_decay(second)) return {*first, *second};
  }
  throw DataError(fmt::format(
      "--betas {}: must be two numbers from 0 to below 1 with a comma, such as 0.9,0.999", text));
}

LossScale parse_loss_scale(const std::string& text) {
  if (text == "dynamic") return {};
  if (text == "none") return {.kind = LossScale::Kind::none};
  const auto value = number_in<float>(text);
  if (value && *value >= 1 && *value <= kLossScaleMax)
    return {.kind = LossScale::Kind::fixed, .value = *value};
  throw DataError(
      fmt::format("--loss-scale {}: must be dynamic, none, or a number from 1 to {:.0f}, such as "
                  "1024",
                  text, kLossScaleMax));
}

}  // namespace

void add_optimizer_options(CommandLine& line, Options& options, OptimizerTexts& texts) {
  line.group("Optimizer");
  line.choice("--optimizer", options.optimizer.kind, "Update rule of the weights")
      ->default_str("sgd, of textclf adamw");
  line.number("--lr", options.optimizer.learning_rate, 0, kRateMax, "X", "Learning rate")
      ->default_str("sgd 0.05, adamw 0.001, textclf with adamw 0.0005");
  line.number("--scale-lr", options.optimizer.scale_lr, 1, 1'000'000'000, "SAMPLES",
              "The global batch that --lr is meant for: it is multiplied by the global batch of "
              "this run, divided by SAMPLES");
  line.number("--momentum", options.optimizer.momentum, 0, 1, "X", "Momentum (sgd only)");
  line.flag("--nesterov", options.optimizer.nesterov, "Nesterov's momentum (sgd only)");
  line.text("--betas", texts.betas, "B1,B2", "Decay rates of adamw's two moments");
  line.number("--eps", options.optimizer.epsilon, 0, 1, "X",
              "What adamw adds to the root of the second moment");
  line.number("--weight-decay", options.optimizer.weight_decay, 0, kRateMax, "X",
              "Rate at which weights decay towards 0")
      ->default_str("sgd 0, adamw 0.01");
  line.choice(
      "--decay", options.optimizer.decay,
      "What decays: the weights of convolutions, transposed convolutions, linear layers and "
      "embeddings, or all parameters, biases and norms too, as in PyTorch where nothing else is "
      "said");
  line.number("--grad-clip", options.optimizer.grad_clip, 0, kRateMax, "X",
              "Scale all gradients down to this norm where theirs, taken together, is greater; 0: "
              "never");
  line.choice("--schedule", options.schedule.kind, "How the learning rate changes; counts steps");
  line.number("--step-epochs", options.schedule.step_epochs, 1, kManyMax, "N",
              "With --schedule step: multiply the rate every N epochs");
  line.number("--step-factor", options.schedule.step_factor, 0, 1, "X",
              "With --schedule step: by this factor");
  line.choice("--plateau-on", options.schedule.plateau_on,
              "With --schedule plateau: the loss that has to fall, of the held-out or of the "
              "training samples");
  line.number("--plateau-patience", options.schedule.plateau.patience, 0, kManyMax, "N",
              "With --schedule plateau: so many epochs in a row may bring no better loss; the next "
              "one lowers the rate");
  line.number("--plateau-factor", options.schedule.plateau.factor, 0, 1, "X",
              "With --schedule plateau: the factor by which the rate is lowered");
  line.text("--warmup", texts.warmup, "N|N%[+1]",
            "Steps in which the rate rises to --lr: their number, or their share of all steps. "
            "Step k has k/N of --lr, as in transformers; with +1 behind it (k+1)/N");
  line.choice("--precision", options.precision.format,
              "Number format of the computation; fp16 uses a loss scale; master weights stay "
              "fp32. tf32 is for GPUs: all is stored as fp32, and the factors of matrix products "
              "and convolutions are rounded to 10 bits");
  line.text("--loss-scale", texts.loss_scale, "HOW",
            "With --precision fp16: dynamic (as PyTorch's GradScaler), none, or a number that "
            "stays; where there is a scale, steps with an overflow are skipped");
  line.number(
      "--seed", options.seed, 0, std::uint64_t{1} << 62, "N",
      "Seed of all that is drawn: initial weights, generated samples, --holdout, the order of "
      "samples, --crop, --flip, dropout");
}

void convert_optimizer(const OptimizerTexts& texts, Options& options) {
  options.schedule.warmup = parse_warmup(texts.warmup);
  options.optimizer.betas = parse_betas(texts.betas);
  options.precision.loss_scale = parse_loss_scale(texts.loss_scale);
}

std::vector<OptionNeed> optimizer_needs(const Options& options) {
  const bool is_sgd = options.optimizer.kind == OptimizerKind::sgd;
  const bool is_plateau = options.schedule.kind == ScheduleKind::plateau;
  const bool is_step = options.schedule.kind == ScheduleKind::step;
  const bool is_half = options.precision.format == Precision::fp16;
  const bool is_tf32_on_cpu =
      options.precision.format == Precision::tf32 && options.device.kind == DeviceKind::cpu;
  return {
      {"--precision", !is_tf32_on_cpu,
       options.device.parallel == Parallel::dp
           ? "a GPU for tf32, but --parallel dp trains on the CPU: take fp32, or --parallel ddp"
           : "a GPU for tf32, but --device is cpu: take fp32, or a GPU"},
      {"--decay", weight_decay_of(options) > 0, "--weight-decay above 0"},
      {"--momentum", is_sgd, "--optimizer sgd"},
      {"--nesterov", is_sgd && options.optimizer.momentum > 0,
       "--optimizer sgd with --momentum above 0"},
      {"--betas", !is_sgd, "--optimizer adamw"},
      {"--eps", !is_sgd, "--optimizer adamw"},
      {"--plateau-patience", is_plateau, "--schedule plateau"},
      {"--plateau-factor", is_plateau, "--schedule plateau"},
      {"--plateau-on", is_plateau, "--schedule plateau"},
      {"--step-epochs", is_step, "--schedule step"},
      {"--step-factor", is_step, "--schedule step"},
      {"--loss-scale", is_half, "--precision fp16: others have no loss scale"},
      {"--inject-overflow-at",
       is_half && options.precision.loss_scale.kind != LossScale::Kind::none,
       "--precision fp16 with a loss scale"},
  };
}

double base_rate(const Options& options) {
  if (options.optimizer.kind == OptimizerKind::sgd)
    return options.optimizer.learning_rate.value_or(kSgdRate);
  return options.optimizer.learning_rate.value_or(reads_texts(options.model.name) ? kTextRate
                                                                                  : kAdamwRate);
}

double weight_decay_of(const Options& options) {
  return options.optimizer.weight_decay.value_or(
      options.optimizer.kind == OptimizerKind::adamw ? kAdamwDecay : 0);
}

std::string to_string(OptimizerKind kind) { return std::string(word_of(kind)); }
std::string to_string(Decay decay) { return std::string(word_of(decay)); }
std::string to_string(ScheduleKind kind) { return std::string(word_of(kind)); }
std::string to_string(PlateauOn loss) { return std::string(word_of(loss)); }

}  // namespace ddprun::trainer
