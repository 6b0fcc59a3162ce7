#include "trainer/run/loop/stored_sets.hpp"

#include <algorithm>
#include <new>

#include "base/assert.hpp"

namespace ddprun::trainer {
namespace {

/// About so much is read before it is copied.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

std::uint64_t count_tokens(const TextSet& set) {
  std::uint64_t tokens = 0;
  for (std::size_t i = 0; i < set.size(); ++i) tokens += static_cast<std::uint64_t>(set.length(i));
  return tokens;
}

StoredRow row_of(std::size_t index, std::size_t bytes) {
  return {.begin = std::uint64_t{index} * bytes, .size = bytes};
}

}  // namespace

StoredSet::StoredSet(const DataSet& set, Device& device) : set_(set) {
  if (const TextSet* const texts = set.texts()) {
    copy_texts(*texts, device);
  } else {
    copy_images(*set.images(), device);
  }
}

std::uint64_t StoredSet::bytes(const DataSet& set) {
  if (const TextSet* const texts = set.texts()) return count_tokens(*texts) * sizeof(std::int32_t);
  return std::uint64_t{set.size()} *
         (sample_size(set.images()->shape()) + mask_bytes(*set.images()));
}

void StoredSet::copy_images(const ImageSet& set, Device& device) {
  DDPRUN_ASSERT(set.size() > 0, "a set has samples");
  row_bytes_ = sample_size(set.shape());
  mask_row_bytes_ = mask_bytes(set);
  const std::size_t size = row_bytes_;
  const std::size_t mask = mask_row_bytes_;
  pixels_ = device.allocate_samples(set.size() * size);
  masks_ = device.allocate_samples(set.size() * mask);
  const std::size_t at_once = std::clamp<std::size_t>(kPieceBytes / size, 1, set.size());
  std::vector<std::uint8_t> pixels(at_once * size);
  std::vector<std::uint8_t> masks(at_once * mask);
  for (std::size_t first = 0; first < set.size(); first += at_once) {
    const std::size_t count = std::min(at_once, set.size() - first);
    for (std::size_t i = 0; i < count; ++i)
      set.read_image(first + i, std::span(pixels).subspan(i * size, size),
                     std::span(masks).subspan(i * mask, mask));
    device.copy_samples_in(std::as_bytes(std::span(pixels).first(count * size)),
                           pixels_.data() + first * size);
    device.copy_samples_in(std::as_bytes(std::span(masks).first(count * mask)),
                           masks_.data() + first * mask);
  }
}

void StoredSet::copy_texts(const TextSet& set, Device& device) {
  tokens_ = device.allocate_samples(bytes(set));
  std::vector<std::int32_t> piece;
  std::uint64_t end = 0;
  const auto copy = [&] {
    const std::uint64_t begin = end - piece.size();
    device.copy_samples_in(std::as_bytes(std::span(piece)),
                           tokens_.data() + begin * sizeof(std::int32_t));
    piece.clear();
  };
  for (std::size_t i = 0; i < set.size(); ++i) {
    const auto length = static_cast<std::size_t>(set.length(i));
    piece.resize(piece.size() + length);
    set.read_tokens(i, std::span(piece).last(length));
    end += length;
    ends_.push_back(end);
    if (piece.size() * sizeof(std::int32_t) >= kPieceBytes) copy();
  }
  copy();
}

StoredRow StoredSet::pixel_row(std::size_t index) const { return row_of(index, row_bytes_); }

StoredRow StoredSet::mask_row(std::size_t index) const { return row_of(index, mask_row_bytes_); }

StoredRow StoredSet::token_row(std::size_t index) const {
  const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
  return {.begin = begin * sizeof(std::int32_t),
          .size = (ends_[index] - begin) * sizeof(std::int32_t)};
}

StoredRows StoredSet::pixels(std::span<const StoredRow> rows) const {
  return {.set = pixels_.as<std::byte>(), .rows = rows, .row_bytes = row_bytes_};
}

StoredRows StoredSet::masks(std::span<const StoredRow> rows) const {
  return {.set = masks_.as<std::byte>(), .rows = rows, .row_bytes = mask_row_bytes_};
}

StoredRows StoredSet::tokens(std::span<const StoredRow> rows, int width) const {
  return {.set = tokens_.as<std::byte>(),
          .rows = rows,
          .row_bytes = static_cast<std::size_t>(width) * sizeof(std::int32_t)};
}

void StoredSets::choose(const std::vector<const DataSet*>& sets, std::uint64_t bytes_most) {
  chosen_.clear();
  for (const DataSet* set : sets) {
    if (!set->is_in_memory()) continue;
    chosen_.push_back(set);
    if (bytes() > bytes_most) chosen_.pop_back();
  }
}

std::uint64_t StoredSets::bytes() const {
  std::uint64_t bytes = 0;
  for (const DataSet* set : chosen_) bytes += StoredSet::bytes(*set);
  return bytes;
}

bool StoredSets::copy_to(Device& device) {
  try {
    for (const DataSet* set : chosen_) stored_.emplace_back(*set, device);
    return true;
  } catch (const std::bad_alloc&) {
    stored_.clear();
    return false;
  }
}

const StoredSet* StoredSets::find(const DataSet& set) const {
  const auto found = std::find_if(stored_.begin(), stored_.end(),
                                  [&](const StoredSet& one) { return &one.set() == &set; });
  return found == stored_.end() ? nullptr : &*found;
}

}  // namespace ddprun::trainer
