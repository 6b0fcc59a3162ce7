// Reads the images of one set for one worker, which tells it the order: those that are decoded
// whenever they are read are decoded ahead, by threads, a bounded number of them. They come in the
// order that was asked for, whatever the threads do.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "trainer/data/data_set.hpp"

namespace ddprun::trainer {

class DecodeQueue {
 public:
  struct Settings {
    std::size_t sample_bytes = 0;  ///< of a decoded sample
    std::size_t samples = 1;       ///< the most that are decoded or being decoded at one time
    int threads = 1;
  };
  /// Writes sample `index` into exactly sample_bytes bytes. Called by several threads at once. What
  /// it throws is thrown by take().
  using Decode = std::function<void(std::size_t index, std::span<std::uint8_t> bytes)>;

  /// Throws DataError where the system refuses the first thread; of more, fewer do.
  DecodeQueue(Settings settings, Decode decode);
  ~DecodeQueue();
  DecodeQueue(const DecodeQueue&) = delete;
  DecodeQueue& operator=(const DecodeQueue&) = delete;

  /// From now on these samples come, each by its place in the list. What was asked for before is
  /// forgotten; no take() may be under way.
  void expect(std::vector<std::uint32_t> order);

  /// Waits for the sample in `place` and shows its bytes to `use`, after which they are gone. Each
  /// place once. Several threads may take places side by side, each by rising place, where the
  /// lowest one left is that of a thread that comes for it without waiting for the others. Throws
  /// what decoding this sample threw. From then on every call throws it, so that no thread waits
  /// for a place that never comes.
  void take(std::size_t place, const std::function<void(std::span<const std::uint8_t>)>& use);

  /// The bytes that it holds: of all samples, since it was made.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.size(); }
  /// The most samples that were decoded or being decoded at one time.
  [[nodiscard]] std::size_t most_held() const;

 private:
  enum class State { free, decoding, ready, failed, taken };
  struct Slot {
    State state = State::free;
    std::exception_ptr error;
  };

  void serve();
  [[nodiscard]] bool has_work() const {
    return next_ < order_.size() && next_ < first_ + settings_.samples;
  }
  [[nodiscard]] Slot& slot_of(std::size_t place) { return slots_[place % settings_.samples]; }
  [[nodiscard]] std::span<std::uint8_t> bytes_of(std::size_t place);

  Settings settings_;
  Decode decode_;
  std::vector<std::uint8_t> bytes_;  // of each slot

  mutable std::mutex mutex_;
  std::condition_variable work_;     // there may be some for a decoder
  std::condition_variable changed_;  // a slot is ready, or no decoder works
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> order_;
  std::size_t next_ = 0;             // the place that is decoded next
  std::size_t first_ = 0;            // the lowest place that has not been taken
  std::vector<std::size_t> wanted_;  // places that readers wait for
  std::size_t decoding_ = 0;
  std::size_t held_ = 0;
  std::size_t most_held_ = 0;
  std::exception_ptr broken_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

/// Decodes the samples 0 to `count` - 1, of `sample_bytes` bytes each, by `threads` threads, a few
/// of them ahead, and shows each to `use` in their order. Throws what DecodeQueue throws, and what
/// `use` does.
void decode_all(
    std::size_t count, std::size_t sample_bytes, int threads, const DecodeQueue::Decode& decode,
    const std::function<void(std::size_t index, std::span<const std::uint8_t> bytes)>& use);

class SampleReader {
 public:
  struct Settings {
    std::size_t samples_of_step = 1;  ///< that are read before the worker computes on
    int threads = 1;                  ///< that decode
  };
  /// Images in memory are read there, without queue or threads; of a set of texts none is read. The
  /// set outlives the reader. Throws DataError where the system refuses a thread.
  SampleReader(const DataSet& set, Settings settings);

  [[nodiscard]] const DataSet& set() const { return set_; }

  /// The next `count` samples: sample(place) is the index of the one in `place`. What was told
  /// before is forgotten.
  void expect(std::size_t count, const std::function<std::size_t(std::size_t place)>& sample);

  /// Writes the sample in `place`, which is that of `index`, as ImageSet::read() does, and throws
  /// what that throws. Each place once; several threads as DecodeQueue::take() allows.
  std::int32_t read(std::size_t place, std::size_t index, std::span<std::uint8_t> pixels,
                    std::span<std::uint8_t> mask);

  /// What a reader takes for its queue: room for the samples of two steps within kQueueBytesMost,
  /// or for one sample for each thread and one more; and of what its threads hold to make samples.
  /// 0 of sets in memory.
  static std::uint64_t bytes(const DataSet& set, const Settings& settings);
  static constexpr std::uint64_t kQueueBytesMost = std::uint64_t{256} << 20;

 private:
  const DataSet& set_;
  const ImageSet* images_;  // null: texts
  std::size_t pixels_ = 0;  // bytes of an image
  std::optional<DecodeQueue> queue_;
};

}  // namespace ddprun::trainer
