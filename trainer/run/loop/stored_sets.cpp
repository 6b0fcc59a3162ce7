#include "trainer/run/loop/stored_sets.hpp"

#include <algorithm>
#include <new>

#include "base/assert.hpp"

namespace ddprun::trainer {
namespace {

/// About so much is read before it is copied.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

std::size_t mask_bytes(const DataSet& set) {
  return set.target() == Target::mask ? mask_size(set.shape()) : 0;
}

std::uint64_t count_tokens(const DataSet& set) {
  std::uint64_t tokens = 0;
  for (std::size_t i = 0; i < set.size(); ++i) tokens += static_cast<std::uint64_t>(set.length(i));
  return tokens;
}

StoredRow row_of(std::size_t index, std::size_t bytes) {
  return {.begin = std::uint64_t{index} * bytes, .size = bytes};
}

}  // namespace

StoredSet::StoredSet(const DataSet& set, Device& device) : set_(set) {
  if (set.has_texts()) {
    copy_texts(device);
  } else {
    copy_images(device);
  }
}

std::uint64_t StoredSet::bytes(const DataSet& set) {
  if (set.has_texts()) return count_tokens(set) * sizeof(std::int32_t);
  return std::uint64_t{set.size()} * (sample_size(set.shape()) + mask_bytes(set));
}

void StoredSet::copy_images(Device& device) {
  DDPRUN_ASSERT(set_.size() > 0, "a set has samples");
  const std::size_t size = sample_size(set_.shape());
  const std::size_t mask = mask_bytes(set_);
  pixels_ = device.allocate_samples(set_.size() * size);
  masks_ = device.allocate_samples(set_.size() * mask);
  const std::size_t at_once = std::clamp<std::size_t>(kPieceBytes / size, 1, set_.size());
  std::vector<std::uint8_t> pixels(at_once * size);
  std::vector<std::uint8_t> masks(at_once * mask);
  for (std::size_t first = 0; first < set_.size(); first += at_once) {
    const std::size_t count = std::min(at_once, set_.size() - first);
    for (std::size_t i = 0; i < count; ++i)
      set_.read_image(first + i, std::span(pixels).subspan(i * size, size),
                      std::span(masks).subspan(i * mask, mask));
    device.copy_samples_in(std::as_bytes(std::span(pixels).first(count * size)),
                           pixels_.data() + first * size);
    device.copy_samples_in(std::as_bytes(std::span(masks).first(count * mask)),
                           masks_.data() + first * mask);
  }
}

void StoredSet::copy_texts(Device& device) {
  tokens_ = device.allocate_samples(bytes(set_));
  std::vector<std::int32_t> piece;
  std::uint64_t end = 0;
  const auto copy = [&] {
    const std::uint64_t begin = end - piece.size();
    device.copy_samples_in(std::as_bytes(std::span(piece)),
                           tokens_.data() + begin * sizeof(std::int32_t));
    piece.clear();
  };
  for (std::size_t i = 0; i < set_.size(); ++i) {
    const auto length = static_cast<std::size_t>(set_.length(i));
    piece.resize(piece.size() + length);
    set_.read_tokens(i, std::span(piece).last(length));
    end += length;
    ends_.push_back(end);
    if (piece.size() * sizeof(std::int32_t) >= kPieceBytes) copy();
  }
  copy();
}

StoredRow StoredSet::pixel_row(std::size_t index) const {
  return row_of(index, sample_size(set_.shape()));
}

StoredRow StoredSet::mask_row(std::size_t index) const { return row_of(index, mask_bytes(set_)); }

StoredRow StoredSet::token_row(std::size_t index) const {
  const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
  return {.begin = begin * sizeof(std::int32_t),
          .size = (ends_[index] - begin) * sizeof(std::int32_t)};
}

StoredRows StoredSet::pixels(std::span<const StoredRow> rows) const {
  return {.set = pixels_.as<std::byte>(), .rows = rows, .row_bytes = sample_size(set_.shape())};
}

StoredRows StoredSet::masks(std::span<const StoredRow> rows) const {
  return {.set = masks_.as<std::byte>(), .rows = rows, .row_bytes = mask_bytes(set_)};
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
