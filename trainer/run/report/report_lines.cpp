#include "trainer/run/report/report_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/duration.hpp"
#include "base/json_text.hpp"
#include "base/printable.hpp"

namespace ddprun::trainer {
namespace {

using Json = nlohmann::ordered_json;

Json head(const char* type, const Place& place) {
  return {{"type", type}, {"world_size", place.world_size}, {"round", place.round}};
}

/// "oneDNN 2.6.3 avx512_core" as "isa=avx512_core, oneDNN 2.6.3". What a GPU computes with has no
/// such word.
std::string compute_text(const std::string& compute) {
  const std::size_t space = compute.rfind(' ');
  if (space == std::string::npos || !compute.starts_with("oneDNN ")) return compute;
  return fmt::format("isa={}, {}", compute.substr(space + 1), compute.substr(0, space));
}

Json json_of(const DataParallelFigures& figures) {
  Json phases = Json::object();
  for (std::size_t i = 0; i < figures.seconds.size(); ++i)
    phases[kDataParallelPhases[i]] = figures.seconds[i];
  Json json;
  json["replicas"] = figures.peak_bytes.size();
  json["steps"] = figures.steps;
  json["phase_seconds"] = phases;
  json["replica_peak_bytes"] = figures.peak_bytes;
  json["excess_bytes"] = static_cast<std::int64_t>(figures.excess_bytes());
  return json;
}

/// One of the two, by rank.
std::vector<std::uint64_t> peaks_of(const std::vector<PeakMemory>& all,
                                    std::uint64_t PeakMemory::*which) {
  std::vector<std::uint64_t> bytes;
  for (const PeakMemory& one : all) bytes.push_back(one.*which);
  return bytes;
}

std::string range_text(const std::vector<std::uint64_t>& bytes) {
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  const std::string from = bytes_text(*least);
  const std::string to = bytes_text(*most);
  return from == to ? to : fmt::format("{} to {}", from, to);
}

/// Two or three lines, for terminals of 60 columns. `replicas`: of one worker with --parallel=dp,
/// which are counted together.
std::string peak_memory_text(const std::vector<PeakMemory>& all, std::size_t replicas) {
  std::string of_each = all.size() > 1 ? " of each worker" : "";
  if (replicas > 1) of_each = fmt::format(" of all {} replicas together", replicas);
  std::string text = fmt::format("peak memory{}:\n", of_each);
  text += fmt::format("  {} for weights, gradients, activations\n",
                      range_text(peaks_of(all, &PeakMemory::device)));
  const std::vector<std::uint64_t> processes = peaks_of(all, &PeakMemory::process);
  const bool are_known = std::find(processes.begin(), processes.end(), 0U) == processes.end();
  if (are_known) text += fmt::format("  {} of the process\n", range_text(processes));
  return text;
}

/// A piece of a line, and how much it matters where the line is too long.
struct Part {
  std::string text;
  int weight;
};

/// The parts that fit into so many columns, those that matter most; 0: all of them.
std::string joined(std::vector<Part> parts, std::string_view between, std::size_t columns) {
  const auto length = [&] {
    std::size_t sum = (parts.size() - 1) * between.size();
    for (const Part& part : parts) sum += part.text.size();
    return sum;
  };
  while (columns > 0 && parts.size() > 1 && length() > columns) {
    parts.erase(std::min_element(parts.begin(), parts.end(),
                                 [](const Part& a, const Part& b) { return a.weight < b.weight; }));
  }
  std::string line;
  for (const Part& part : parts) {
    if (!line.empty()) line += between;
    line += part.text;
  }
  return line;
}

/// With a fraction where a whole number says little.
std::string rate_text(double samples_per_second) {
  return samples_per_second < 9.95 ? fmt::format("{:.2g}", samples_per_second)
                                   : fmt::format("{:.0f}", samples_per_second);
}

constexpr std::size_t kNameMax = 32;

/// `index`: of the class.
std::string name_of(const EvaluationResult& result, const Score& score, std::size_t index) {
  if (score.is_of_masks()) return index == 0 ? "outside" : "mask";
  return index < result.class_names.size() ? result.class_names[index] : std::to_string(index);
}

std::string shown(std::string name) {
  name = printable(name);
  return name.size() <= kNameMax ? name : name.substr(0, kNameMax - 3) + "...";
}

/// The mean over the classes that have samples.
double mean_f1(const std::vector<ClassCount>& classes) {
  double sum = 0;
  int count = 0;
  for (const ClassCount& one : classes) {
    if (one.wanted == 0) continue;
    sum += f1_of(one);
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

std::string outcome_text(const Outcome& outcome, const Score& score, std::size_t columns) {
  std::string text = joined({{fmt::format("{:>5}", "epoch"), 9},
                             {fmt::format("{:>10}", "train loss"), 2},
                             {fmt::format("{:>14}", fmt::format("train {}", score.text)), 1},
                             {fmt::format("{:>13}", "held-out loss"), 3},
                             {fmt::format("{:>17}", fmt::format("held-out {}", score.text)), 8},
                             {fmt::format("{:>11}", "samples/s"), 0},
                             {fmt::format("{:>8}", "time"), 7}},
                            "  ", columns) +
                     "\n";
  for (const EpochSummary& epoch : outcome.epochs) {
    text += joined({{fmt::format("{:>5}", epoch.epoch + 1), 9},
                    {fmt::format("{:>10.4f}", epoch.train_loss), 2},
                    {fmt::format("{:>12.2f} %", 100 * epoch.train_score), 1},
                    {fmt::format("{:>13.4f}", epoch.test_loss), 3},
                    {fmt::format("{:>15.2f} %", 100 * epoch.test_score), 8},
                    {fmt::format("{:>11}", rate_text(epoch.samples_per_second)), 0},
                    {fmt::format("{:>8}", duration_text(epoch.seconds)), 7}},
                   "  ", columns) +
            "\n";
  }
  if (outcome.best) {
    const Evaluation& best = *outcome.best;
    text += fmt::format("best: epoch {}{}, {}\n", best.epoch.epoch + 1,
                        best.is_cut_off ? fmt::format(" (cut off after step {})", best.step) : "",
                        score.best_text(best.epoch));
  }
  text += fmt::format("steps {}, skipped {}, restarts {}, time {}\n", outcome.steps,
                      outcome.skipped, outcome.restarts, duration_text(outcome.seconds));
  const std::size_t replicas = outcome.data_parallel ? outcome.data_parallel->peak_bytes.size() : 1;
  if (!outcome.memory.empty()) text += peak_memory_text(outcome.memory, replicas);
  if (outcome.data_parallel) text += data_parallel_text(*outcome.data_parallel);
  if (!outcome.checkpoint.empty())
    text += fmt::format("checkpoint: {}\n", printable(outcome.checkpoint));
  const std::string weights = fmt::format("weights: {}", outcome.weights_hash);
  const std::string made_by =
      fmt::format("(V={}, b={}, threads={}, {})", outcome.shards, outcome.batch,
                  outcome.threads_per_shard, compute_text(outcome.compute));
  const bool fits = columns == 0 || weights.size() + 1 + made_by.size() <= columns;
  return text + weights + (fits ? " " : "\n    ") + made_by;
}

Json outcome_json(const Outcome& outcome, const Score& score, const Place& place) {
  Json json = head("final", place);
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
  if (!outcome.memory.empty()) {
    json["peak_device_bytes"] = peaks_of(outcome.memory, &PeakMemory::device);
    json["peak_process_bytes"] = peaks_of(outcome.memory, &PeakMemory::process);
  }
  if (!outcome.epochs.empty()) {
    json["train_loss"] = outcome.epochs.back().train_loss;
    json["test_loss"] = outcome.epochs.back().test_loss;
    json[score.held_out_key()] = outcome.epochs.back().test_score;
    if (score.is_of_masks()) json["test_f1"] = f1_of(outcome.epochs.back().test_score);
  }
  if (outcome.best) {
    const Evaluation& best = *outcome.best;
    json["best_metric"] = score.best_key();
    json["best_is"] = score.best_is();
    json["best_epoch"] = best.epoch.epoch;
    json["best_step"] = best.step;
    json["best_score"] = score.best_value(best.epoch);
  }
  if (outcome.data_parallel) json["data_parallel"] = json_of(*outcome.data_parallel);
  return json;
}

std::string stopped_text(const StoppedRun& run) {
  const std::string text = fmt::format("stopped by {} after step {}", run.signal, run.step);
  if (run.is_off) return text + "; no checkpoint, as --checkpoint-every is off";
  if (!run.is_saved)
    return text + ", which is in no checkpoint; " +
           (run.checkpoint.empty() ? "there is none" : "the newest one is " + run.checkpoint);
  const std::string folder = std::filesystem::path(run.checkpoint).parent_path().string();
  const std::string resume = run.is_resumed ? "" : "--resume=auto ";
  const std::string out = run.is_named ? "" : fmt::format("--out={} ", folder);
  const std::string way = resume.empty() && out.empty() ? "the same command " : resume + out;
  return fmt::format("{}; checkpoint {}; {}goes on there", text, run.checkpoint, way);
}

}  // namespace

std::string duration_text(double seconds) {
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} m {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} m", whole / 3600, whole % 3600 / 60);
}

ReportLine line_of(const Interval& interval, const LineStyle& style) {
  const Score& score = style.score;
  std::vector<Part> parts;
  parts.push_back({fmt::format("epoch {}/{}", interval.epoch + 1, interval.epochs), 9});
  parts.push_back({fmt::format("step {}/{}", interval.step, interval.last_step), 8});
  parts.push_back({fmt::format("loss {:.4f}", interval.loss), 7});
  parts.push_back({fmt::format("{} {:.1f} %", score.text, 100 * interval.score), 6});
  parts.push_back({fmt::format("{} samples/s", rate_text(interval.samples_per_second)), 4});
  parts.push_back({fmt::format("lr {:.3g}", interval.learning_rate), 1});
  if (interval.loss_scale) parts.push_back({fmt::format("scale {:g}", *interval.loss_scale), 2});
  if (interval.gradient_norm)
    parts.push_back({fmt::format("grad norm {:.3g}", *interval.gradient_norm), 1});
  if (interval.skipped > 0) parts.push_back({fmt::format("skipped {}", interval.skipped), 3});
  if (interval.exposed_share)
    parts.push_back({fmt::format("comm {:.1f} %", 100 * *interval.exposed_share), 0});
  parts.push_back({fmt::format("{} left", duration_text(interval.seconds_left)), 5});

  Json json = head("interval", style.place);
  json["step"] = interval.step;
  json["steps"] = interval.steps;
  json["epoch"] = interval.epoch;
  json["loss"] = interval.loss;
  json[score.key] = interval.score;
  json["learning_rate"] = interval.learning_rate;
  if (interval.loss_scale) json["loss_scale"] = *interval.loss_scale;
  if (interval.gradient_norm) json["gradient_norm"] = *interval.gradient_norm;
  json["skipped"] = interval.skipped;
  json["samples_per_second"] = interval.samples_per_second;
  if (interval.exposed_share) json["exposed_share"] = *interval.exposed_share;

  std::vector<Scalar> scalars{{"loss/train", interval.loss},
                              {fmt::format("{}/train", score.key), interval.score},
                              {"learning_rate/train", interval.learning_rate},
                              {"samples_per_second", interval.samples_per_second}};
  if (interval.loss_scale) scalars.push_back({"loss_scale", *interval.loss_scale});
  if (interval.gradient_norm) scalars.push_back({"gradient_norm", *interval.gradient_norm});
  return {joined(std::move(parts), "  ", style.columns), json_text(json), std::move(scalars)};
}

ReportLine line_of(const EvaluationProgress& progress, const LineStyle& style) {
  std::string text = joined({{fmt::format("epoch {}/{}", progress.epoch + 1, progress.epochs), 2},
                             {fmt::format("step {}/{}", progress.step, progress.last_step), 1},
                             {fmt::format("evaluating {:.0f} %", 100 * progress.share), 3},
                             {fmt::format("{} left", duration_text(progress.seconds_left)), 0}},
                            "  ", style.columns);
  Json json = head("evaluation", style.place);
  json["step"] = progress.step;
  json["epoch"] = progress.epoch;
  json["share"] = progress.share;
  return {std::move(text), json_text(json)};
}

ReportLine line_of(const EpochSummary& epoch, const EpochEnding& ending, const LineStyle& style) {
  const Score& score = style.score;
  const double f1 = f1_of(epoch.test_score);
  const std::string begin =
      fmt::format("epoch {}/{} {} {}: ", epoch.epoch + 1, ending.epochs,
                  ending.end == EpochEnd::complete ? "done in" : "cut off by --max-steps after",
                  duration_text(epoch.seconds));
  const std::size_t columns = style.columns;
  const std::size_t left = columns == 0 ? 0 : columns - std::min(columns - 1, begin.size());
  std::vector<Part> parts{
      {fmt::format("train loss {:.4f}", epoch.train_loss), 2},
      {fmt::format("held-out loss {:.4f}", epoch.test_loss), 3},
      {fmt::format("held-out {} {:.2f} %", score.text, 100 * epoch.test_score), 4}};
  if (score.is_of_masks()) parts.push_back({fmt::format("F1 {:.2f} %", 100 * f1), 1});
  parts.push_back({fmt::format("lr {:.3g}", ending.learning_rate), 0});

  Json json = head("epoch", style.place);
  json["epoch"] = epoch.epoch;
  json["step"] = ending.step;
  json["complete"] = ending.end == EpochEnd::complete;
  json["train_loss"] = epoch.train_loss;
  json[std::string("train_") + score.key] = epoch.train_score;
  json["test_loss"] = epoch.test_loss;
  json[score.held_out_key()] = epoch.test_score;
  if (score.is_of_masks()) {
    json["train_f1"] = f1_of(epoch.train_score);
    json["test_f1"] = f1;
  }
  json["learning_rate"] = ending.learning_rate;
  json["seconds"] = epoch.seconds;
  json["samples_per_second"] = epoch.samples_per_second;

  std::vector<Scalar> scalars{{"loss/held-out", epoch.test_loss},
                              {fmt::format("{}/held-out", score.key), epoch.test_score},
                              {"loss/epoch", epoch.train_loss},
                              {fmt::format("{}/epoch", score.key), epoch.train_score},
                              {"learning_rate/epoch", ending.learning_rate}};
  if (score.is_of_masks()) scalars.push_back({"f1/held-out", f1});
  return {begin + joined(std::move(parts), ", ", left), json_text(json), std::move(scalars)};
}

ReportLine line_of(const Outcome& outcome, const LineStyle& style) {
  return {outcome_text(outcome, style.score, style.columns),
          json_text(outcome_json(outcome, style.score, style.place))};
}

ReportLine line_of(const EvaluationResult& result, const LineStyle& style) {
  const Score& score = style.score;
  const bool masks = score.is_of_masks();
  const double loss = mean_loss(result.counters);
  const double value = score.of(result.counters);
  const double mean = mean_f1(result.classes);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < result.classes.size(); ++i)
    names.push_back(shown(name_of(result, score, i)));
  std::size_t width = std::string_view("class").size();
  for (const std::string& name : names) width = std::max(width, name.size());

  std::string text = fmt::format("{:<{}}  {:>12}  {:>9}  {:>9}  {:>9}{}\n", "class", width,
                                 masks ? "pixels" : "samples", "precision", "recall", "F1",
                                 masks ? fmt::format("  {:>9}", "IoU") : "");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ClassCount& one = result.classes[i];
    text += fmt::format("{:<{}}  {:>12}  {:>7.2f} %  {:>7.2f} %  {:>7.2f} %{}\n", names[i], width,
                        one.wanted, 100 * precision_of(one), 100 * recall_of(one), 100 * f1_of(one),
                        masks ? fmt::format("  {:>7.2f} %", 100 * iou_of(one)) : "");
  }
  text +=
      fmt::format("held-out loss {:.4f}, {} {:.2f} %{}, {} samples of {}, {}\n", loss, score.text,
                  100 * value, masks ? "" : fmt::format(", mean F1 {:.2f} %", 100 * mean),
                  result.counters.count, result.data, duration_text(result.seconds));
  text += fmt::format("weights: {} ({})", result.weights_hash, printable(result.weights_file));

  Json json = head("evaluated", style.place);
  json["file"] = result.weights_file;
  json["weights"] = result.weights_hash;
  json["data"] = result.data;
  json["samples"] = result.counters.count;
  json["test_loss"] = loss;
  json[score.held_out_key()] = value;
  json["test_f1"] = masks ? f1_of(result.classes.back()) : mean;
  json["seconds"] = result.seconds;
  auto classes = Json::array();
  for (std::size_t i = 0; i < result.classes.size(); ++i) {
    const ClassCount& one = result.classes[i];
    classes.push_back({{"name", name_of(result, score, i)},
                       {masks ? "pixels" : "samples", one.wanted},
                       {"predicted", one.predicted},
                       {"correct", one.correct},
                       {"precision", precision_of(one)},
                       {"recall", recall_of(one)},
                       {"f1", f1_of(one)},
                       {"iou", iou_of(one)}});
  }
  json["classes"] = std::move(classes);
  return {std::move(text), json_text(json)};
}

ReportLine line_of(const StoppedRun& run, const LineStyle& style) {
  Json json = head("stopped", style.place);
  json["signal"] = run.signal;
  json["step"] = run.step;
  json["checkpoint"] = run.checkpoint;
  json["saved"] = run.is_saved && !run.is_off;
  return {printable(stopped_text(run)), json_text(json)};
}

}  // namespace ddprun::trainer
