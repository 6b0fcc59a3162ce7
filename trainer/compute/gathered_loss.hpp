// The loss of logits that several executors have computed, on one device: what DataParallel does
// with the outputs of its replicas.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "trainer/compute/batch.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/compute/graph_executor.hpp"
#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

/// A batch comes in pieces, one for each executor, and the loss is that of the whole batch. Each
/// piece is a shard: its samples are counted and numbered as GraphExecutor::loss() does it, and the
/// gradient of its logits has the same bits.
class GatheredLoss {
 public:
  struct Settings {
    int pieces = 1;
    int batch = 1;  ///< the most samples of a piece
    Precision precision = Precision::fp32;
  };
  /// Both outlive the loss.
  GatheredLoss(const Graph& graph, Device& device, Settings settings);

  // In the device's memory, as it stores values of layers.

  /// The place for the logits of `samples` samples.
  [[nodiscard]] std::span<std::byte> logits(int piece, int samples);
  /// Their gradient, after compute().
  [[nodiscard]] std::span<const std::byte> gradient(int piece, int samples) const;

  /// Adds the loss of a piece to `counters`, which are in the device's memory, and computes the
  /// gradient: of the mean loss of the piece times the state's loss scale / V. Of `batch` the
  /// targets count.
  void compute(int piece, const Batch& batch, const ShardId& shard, Counters& counters);

  /// Bytes of the device's memory that it takes.
  [[nodiscard]] static std::size_t bytes(const Graph& graph, Settings settings, Storage storage);

 private:
  [[nodiscard]] std::size_t piece_bytes() const;

  const Graph& graph_;
  Device& device_;
  Settings settings_;
  Storage storage_;
  std::unique_ptr<Operation> operation_;
  DeviceMemory logits_;
  DeviceMemory gradients_;
  DeviceMemory targets_;  // of one piece: labels or masks
  DeviceMemory shard_;    // its number
};

}  // namespace ddprun::trainer
