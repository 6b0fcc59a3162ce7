// Data sets that stay in the GPU's memory, so that a step sends it no samples, only where they lie.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/compute/device.hpp"
#include "trainer/compute/inputs.hpp"
#include "trainer/data/text_set.hpp"

namespace ddprun::trainer {

/// One set, in the device's memory beside the host's.
class StoredSet {
 public:
  /// Copies all samples, while work of the device goes on; the caller waits for as long as its own
  /// part of that takes. Both outlive this. Throws std::bad_alloc.
  StoredSet(const DataSet& set, Device& device);

  /// Bytes of the device's memory.
  static std::uint64_t bytes(const DataSet& set);

  [[nodiscard]] const DataSet& set() const { return set_; }

  // Where sample `index` lies, and the rows of some samples, which the caller keeps.
  [[nodiscard]] StoredRow pixel_row(std::size_t index) const;
  [[nodiscard]] StoredRow mask_row(std::size_t index) const;
  [[nodiscard]] StoredRow token_row(std::size_t index) const;
  [[nodiscard]] StoredRows pixels(std::span<const StoredRow> rows) const;
  [[nodiscard]] StoredRows masks(std::span<const StoredRow> rows) const;
  /// `width`: tokens of each, with the zeros behind it.
  [[nodiscard]] StoredRows tokens(std::span<const StoredRow> rows, int width) const;

 private:
  void copy_images(const ImageSet& set, Device& device);
  void copy_texts(const TextSet& set, Device& device);

  const DataSet& set_;
  std::size_t row_bytes_ = 0;       // of an image
  std::size_t mask_row_bytes_ = 0;  // of its mask
  DeviceMemory pixels_;
  DeviceMemory masks_;               // as bytes; of labels none
  DeviceMemory tokens_;              // one text behind the other
  std::vector<std::uint64_t> ends_;  // of texts, in tokens
};

/// Those of a run's sets that stay on its device.
class StoredSets {
 public:
  /// What a worker's sets may take of a GPU's `free` memory, which so many `workers` share and in
  /// which each takes `taken` for its run: an eighth of what that leaves.
  static std::uint64_t bytes_most(std::uint64_t free, int workers, std::uint64_t taken) {
    const std::uint64_t mine = free / static_cast<std::uint64_t>(workers);
    return mine <= taken ? 0 : (mine - taken) / 8;
  }

  /// Chooses one of `sets` after the other, as far as they are in the host's memory and fit into
  /// `bytes_most`. They outlive this.
  void choose(const std::vector<const DataSet*>& sets, std::uint64_t bytes_most);
  /// That the chosen sets take of the device's memory.
  [[nodiscard]] std::uint64_t bytes() const;
  /// Copies them. The device outlives this. False: its memory does not suffice, as other programs
  /// have taken of it since; then none stays there.
  [[nodiscard]] bool copy_to(Device& device);
  /// Null: it does not stay there.
  [[nodiscard]] const StoredSet* find(const DataSet& set) const;

 private:
  std::vector<const DataSet*> chosen_;
  std::vector<StoredSet> stored_;
};

}  // namespace ddprun::trainer
