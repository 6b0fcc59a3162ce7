// Turns "this shard's gradients are final up to here" into sums over all shards of all ranks,
// overlapped with the rest of backward. Hides the shard tree, accumulation, buckets and tickets
// from the training loop.
//
// One step of the loop, for each shard of shard_run(V, W, rank), by one lane or several:
//
//     reducer.begin_step();
//     const GradientArena gradients = reducer.begin_shard(shard);
//     executor.train(batch, weights, id);
//     executor.backward(gradients, [&](std::size_t end) { reducer.final_up_to(shard, end); });
//     ... when all shards of the run are computed and the lanes have joined:
//     CommResult result = reducer.finish_step(deadline);   // then reducer.gradients() is the sum
//     over all V shards
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "trainer/comm/communicator.hpp"
#include "trainer/comm/shard_sums.hpp"
#include "trainer/compute/device.hpp"

namespace ddprun::trainer {

struct BucketSizes {
  std::size_t bytes = 25u << 20;       ///< --bucket-mb
  std::size_t first_bytes = 1u << 20;  ///< small, so that the first sum starts early in backward
  std::size_t last_bytes = 1u << 20;   ///< small, because its sum is exposed at the end of backward
};

/// The ranges, in the order in which backward finishes them. They cover 0 .. arena_floats, are cut
/// on 64 bytes (also inside tensors), and are at most kStartedMax: sizes that would give more are
/// raised. One is left for notes.
std::vector<Range> bucket_table(std::size_t arena_floats, BucketSizes sizes);

/// begin_shard() and final_up_to() may be called by several threads, each for its own shard. The
/// others by one thread while no shard is under way.
class Reducer {
 public:
  /// `communicator` was made for the same number of shards and the same arena size, and for memory
  /// of `device`; both outlive the reducer.
  Reducer(Communicator& communicator, Device& device, int shards, std::size_t arena_floats,
          BucketSizes sizes = {});

  void begin_step();

  /// Where the executor writes the gradients of one shard of this rank's run. In a chain the shards
  /// of the run begin in their order, each when the one before it is complete.
  GradientArena begin_shard(int shard);

  /// To be called as backward goes on, with rising ends, at last with the arena's size. In tree
  /// order adds the shard to its neighbours; starts the buckets that are final in all local sums,
  /// and does some of the communication.
  void final_up_to(int shard, std::size_t end);

  /// Finishes all sums (see Communicator::finish()). Unless the result is done, gradients() is
  /// garbage and the parameters must not change. If it is done, the notes that ranks left before
  /// they called this are there.
  CommResult finish_step(Clock::time_point deadline);

  /// The sum over all V shards, in tree order with the same bits for every world size. Valid until
  /// begin_step().
  [[nodiscard]] std::span<float> gradients() const { return gradients_; }
  [[nodiscard]] const std::vector<Range>& buckets() const { return buckets_; }
  /// The whole of finish_step(): communication that backward did not hide. None: that call does not
  /// wait, so its time tells nothing.
  [[nodiscard]] std::optional<Clock::duration> exposed() const {
    return communicator_.finish_waits() ? std::optional(exposed_) : std::nullopt;
  }

 private:
  void launch();

  Communicator& communicator_;
  std::vector<Range> buckets_;
  std::span<float> gradients_;
  std::unique_ptr<ShardSums> sums_;
  Clock::duration exposed_{};

  std::atomic<std::size_t> final_{0};     // floats final in all local nodes
  std::atomic<std::size_t> launched_{0};  // buckets started; written under communicating_
  std::mutex communicating_;              // the communicator is for one thread at a time
  std::vector<Ticket> tickets_;           // by bucket index
};

}  // namespace ddprun::trainer
