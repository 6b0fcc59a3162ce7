#include "trainer/run/memory_remedy.hpp"

#include <algorithm>
#include <vector>

namespace ddprun::trainer {
namespace {

/// Each remedy once, in the order in which they were added.
class Remedies {
 public:
  void add(bool is_possible, const char* text) {
    if (!is_possible || std::find(texts_.begin(), texts_.end(), text) != texts_.end()) return;
    texts_.emplace_back(text);
  }
  [[nodiscard]] std::string text() const {
    std::string all = "use ";
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      if (i > 0) all += i + 1 == texts_.size() ? " or " : ", ";
      all += texts_[i];
    }
    return all;
  }

 private:
  std::vector<std::string> texts_;
};

void add_smaller_samples(Remedies& remedies, const MemoryChoices& choices) {
  remedies.add(choices.has_texts, "a smaller --max-tokens");
  remedies.add(!choices.has_texts, "a smaller --image-shape");
}

void add_smaller_model(Remedies& remedies, const MemoryChoices& choices) {
  remedies.add(choices.has_smaller_size, "a smaller --size");
  remedies.add(choices.has_two_moments, "--optimizer=sgd");
}

void add_smaller_data(Remedies& remedies, const MemoryChoices& choices) {
  remedies.add(choices.has_texts && choices.is_generated, "fewer --sentences");
  remedies.add(choices.has_texts && !choices.is_generated, "fewer texts");
  remedies.add(choices.has_data_memory, "a smaller --data-memory");
  remedies.add(!choices.has_texts && !choices.is_generated, "fewer images");
  add_smaller_samples(remedies, choices);
}

constexpr const char* kFewerWorkers = "fewer workers on this machine";
constexpr const char* kFewerReplicas = "fewer --replicas";
constexpr const char* kOtherModel = "another --model";

}  // namespace

MemoryChoices memory_choices(const Options& options, int batch) {
  const bool has_texts = reads_texts(options.model);
  return {.batch = batch,
          .has_texts = has_texts,
          .is_generated = is_generated(options),
          .has_data_memory = options.data_memory.has_value(),
          .has_smaller_size = has_texts && options.size != TextSize::tiny,
          .has_two_moments = options.optimizer == OptimizerKind::adamw,
          .has_half_values =
              options.precision == Precision::bf16 || options.precision == Precision::fp16,
          .has_replicas = replicas_of(options) > 1};
}

std::string memory_remedy(const RunMemory& need, int workers) {
  const auto is_large = [&](std::uint64_t bytes) { return 4 * bytes >= need.total(); };
  const bool at_start = need.start() > need.training();
  Remedies remedies;
  if (!at_start && is_large(need.lane * static_cast<std::uint64_t>(need.lanes))) {
    remedies.add(need.choices.batch > 1, "a smaller --batch");
    remedies.add(need.lanes > 1, need.choices.has_replicas ? kFewerReplicas : "fewer --lanes");
    add_smaller_samples(remedies, need.choices);
  }
  const bool has_large_arenas = is_large(need.arena * static_cast<std::uint64_t>(need.arenas));
  remedies.add(!at_start && has_large_arenas && need.choices.has_replicas, kFewerReplicas);
  if (at_start || has_large_arenas) add_smaller_model(remedies, need.choices);
  if (is_large(need.data)) add_smaller_data(remedies, need.choices);
  remedies.add(workers > 1, kFewerWorkers);
  remedies.add(true, kOtherModel);
  return remedies.text();
}

std::string data_remedy(const MemoryChoices& choices, int workers) {
  Remedies remedies;
  add_smaller_data(remedies, choices);
  remedies.add(workers > 1, kFewerWorkers);
  return remedies.text();
}

std::string gpu_memory_remedy(const RunMemory& need, int workers) {
  Remedies remedies;
  remedies.add(workers > 1, "fewer workers or more GPUs");
  remedies.add(need.choices.batch > 1, "a smaller --batch with a larger --accumulate");
  remedies.add(!need.choices.has_half_values, "--precision bf16 or fp16");
  add_smaller_samples(remedies, need.choices);
  add_smaller_model(remedies, need.choices);
  remedies.add(true, kOtherModel);
  remedies.add(true, "--device=cpu");
  return remedies.text();
}

}  // namespace ddprun::trainer
