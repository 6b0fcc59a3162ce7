// Reads the images of one set for one worker, which tells it the order: those that are decoded
// whenever they are read are decoded ahead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "trainer/data/data_set.hpp"
#include "trainer/data/decode_queue.hpp"

namespace ddprun::trainer {

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
