#include "trainer/run/report_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ddprun::trainer {
namespace {

using Json = nlohmann::ordered_json;

Json line(const char* type, const Place& place) {
  return {{"type", type}, {"world_size", place.world_size}, {"round", place.round}};
}

/// "oneDNN 2.6.3 avx512_core" as "isa=avx512_core, oneDNN 2.6.3".
std::string compute_text(const std::string& compute) {
  const std::size_t space = compute.rfind(' ');
  if (space == std::string::npos) return compute;
  return fmt::format("isa={}, {}", compute.substr(space + 1), compute.substr(0, space));
}

}  // namespace

std::string duration_text(double seconds) {
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} m {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} m", whole / 3600, whole % 3600 / 60);
}

std::string progress_text(const Interval& interval) {
  std::string text = fmt::format(
      "epoch {}/{}  step {}/{}  loss {:.4f}  accuracy {:.1f} %  {:.0f} samples/s  lr {:.3g}",
      interval.epoch + 1, interval.epochs, interval.step, interval.last_step, interval.loss,
      100 * interval.accuracy, interval.samples_per_second, interval.learning_rate);
  if (interval.loss_scale) text += fmt::format("  scale {:g}", *interval.loss_scale);
  if (interval.skipped > 0) text += fmt::format("  skipped {}", interval.skipped);
  return text + fmt::format("  comm {:.1f} %  {} left", 100 * interval.exposed_share,
                            duration_text(interval.seconds_left));
}

std::string progress_json(const Interval& interval, const Place& place) {
  Json json = line("interval", place);
  json["step"] = interval.step;
  json["epoch"] = interval.epoch;
  json["loss"] = interval.loss;
  json["accuracy"] = interval.accuracy;
  json["learning_rate"] = interval.learning_rate;
  if (interval.loss_scale) json["loss_scale"] = *interval.loss_scale;
  json["skipped"] = interval.skipped;
  json["samples_per_second"] = interval.samples_per_second;
  json["exposed_share"] = interval.exposed_share;
  return json.dump();
}

std::string epoch_text(const EpochSummary& epoch, std::int64_t epochs) {
  return fmt::format(
      "epoch {}/{} done in {}: train loss {:.4f}, held-out loss {:.4f}, held-out accuracy {:.2f} %",
      epoch.epoch + 1, epochs, duration_text(epoch.seconds), epoch.train_loss, epoch.test_loss,
      100 * epoch.test_accuracy);
}

std::string epoch_json(const EpochSummary& epoch, const Place& place) {
  Json json = line("epoch", place);
  json["epoch"] = epoch.epoch;
  json["train_loss"] = epoch.train_loss;
  json["train_accuracy"] = epoch.train_accuracy;
  json["test_loss"] = epoch.test_loss;
  json["test_accuracy"] = epoch.test_accuracy;
  json["seconds"] = epoch.seconds;
  json["samples_per_second"] = epoch.samples_per_second;
  return json.dump();
}

std::string outcome_text(const Outcome& outcome) {
  std::string text =
      fmt::format("{:>5}  {:>10}  {:>14}  {:>13}  {:>17}  {:>11}  {:>8}\n", "epoch", "train loss",
                  "train accuracy", "held-out loss", "held-out accuracy", "samples/s", "time");
  for (const EpochSummary& epoch : outcome.epochs) {
    text += fmt::format("{:>5}  {:>10.4f}  {:>12.2f} %  {:>13.4f}  {:>15.2f} %  {:>11.0f}  {:>8}\n",
                        epoch.epoch + 1, epoch.train_loss, 100 * epoch.train_accuracy,
                        epoch.test_loss, 100 * epoch.test_accuracy, epoch.samples_per_second,
                        duration_text(epoch.seconds));
  }
  text += fmt::format("steps {}, skipped {}, restarts {}, time {}\n", outcome.steps,
                      outcome.skipped, outcome.restarts, duration_text(outcome.seconds));
  if (!outcome.checkpoint.empty()) text += fmt::format("checkpoint: {}\n", outcome.checkpoint);
  text += fmt::format("weights: {} (V={}, b={}, threads={}, {})\n", outcome.weights_hash,
                      outcome.shards, outcome.batch, outcome.threads_per_shard,
                      compute_text(outcome.compute));
  return text;
}

std::string outcome_json(const Outcome& outcome, const Place& place) {
  Json json = line("final", place);
  json["weights"] = outcome.weights_hash;
  json["shards"] = outcome.shards;
  json["batch"] = outcome.batch;
  json["threads_per_shard"] = outcome.threads_per_shard;
  json["compute"] = outcome.compute;
  json["steps"] = outcome.steps;
  json["skipped"] = outcome.skipped;
  json["restarts"] = outcome.restarts;
  json["seconds"] = outcome.seconds;
  json["checkpoint"] = outcome.checkpoint;
  if (!outcome.epochs.empty()) {
    json["train_loss"] = outcome.epochs.back().train_loss;
    json["test_loss"] = outcome.epochs.back().test_loss;
    json["test_accuracy"] = outcome.epochs.back().test_accuracy;
  }
  return json.dump();
}

}  // namespace ddprun::trainer
