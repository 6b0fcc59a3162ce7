// Samples that threads decode ahead of their readers, a bounded number of them. They come in the
// order that was asked for, whatever the threads do.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

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

}  // namespace ddprun::trainer
