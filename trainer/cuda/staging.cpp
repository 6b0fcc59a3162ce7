#include "trainer/cuda/staging.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/rounded_up.hpp"

namespace ddprun::trainer::cuda {
namespace {

/// Copies of their own begin on a line of the cache.
constexpr std::size_t kAlignment = 64;
}  // namespace

Staging::~Staging() {
  if (ring_ != nullptr) gpu_.release_pinned(ring_);
}

void Staging::allocate(std::size_t bytes) {
  while (!under_way_.empty()) {
    gpu_.synchronize(under_way_.front().done);
    free_oldest();
  }
  if (ring_ != nullptr) gpu_.release_pinned(std::exchange(ring_, nullptr));
  ring_bytes_ = 0;
  next_ = 0;
  ring_ = gpu_.allocate_pinned(bytes);
  ring_bytes_ = bytes;
}

void Staging::reserve(std::size_t bytes) {
  // A piece that does not fit in front of the ring's end leaves that free.
  const std::size_t two = 2 * rounded_up(bytes, kAlignment) + kPieceBytes;
  if (two > std::max(ring_bytes_, kRingBytes)) allocate(two);
}

void Staging::free_oldest() {
  free_events_.push_back(under_way_.front().done);
  under_way_.pop_front();
}

Staging::Place Staging::take(std::size_t bytes) {
  if (ring_ == nullptr) allocate(kRingBytes);
  const std::size_t begin = next_ + bytes <= ring_bytes_ ? next_ : 0;
  const std::size_t end = begin + bytes;
  next_ = rounded_up(end, kAlignment);
  while (!under_way_.empty() && gpu_.has_come(under_way_.front().done)) free_oldest();
  // Whatever lies there is older than all that does not.
  const auto is_in_use = [&] {
    return std::any_of(under_way_.begin(), under_way_.end(),
                       [&](const Place& place) { return place.begin < end && begin < place.end; });
  };
  while (is_in_use()) {
    gpu_.synchronize(under_way_.front().done);
    free_oldest();
  }
  if (free_events_.empty()) free_events_.push_back(gpu_.make_event());
  const Place place{begin, end, free_events_.back()};
  free_events_.pop_back();
  return place;
}

void Staging::give(Place place, Stream stream) {
  gpu_.record(place.done, stream);
  under_way_.push_back(place);
}

void Staging::copy_in(Stream stream, std::span<const std::byte> host, void* to) {
  const StagedPart whole{host, 0};
  copy_in(stream, std::span(&whole, 1), to);
}

void Staging::copy_in(Stream stream, std::span<const StagedPart> parts, void* to) {
  const std::size_t whole = parts.empty() ? 0 : parts.back().offset + parts.back().host.size();
  for (std::size_t at = 0; at < whole; at += kPieceBytes) {
    const std::size_t bytes = std::min(whole - at, kPieceBytes);
    const Place place = take(bytes);
    for (const StagedPart& part : parts) {
      const std::size_t begin = std::max(at, part.offset);
      const std::size_t end = std::min(at + bytes, part.offset + part.host.size());
      if (begin < end)
        std::memcpy(ring_ + place.begin + (begin - at), part.host.data() + (begin - part.offset),
                    end - begin);
    }
    gpu_.copy_in(stream, ring_ + place.begin, static_cast<std::byte*>(to) + at, bytes);
    give(place, stream);
  }
}

void Staging::copy_out(Stream stream, const void* from, std::span<std::byte> host) {
  const auto* source = static_cast<const std::byte*>(from);
  static_assert(kRingBytes >= 4 * kPieceBytes, "the piece after next does not lie in its place");
  // One piece is read by the host while the GPU fills the next one.
  struct Arriving {
    Place place;
    std::span<std::byte> to;
  };
  std::optional<Arriving> arriving;
  const auto arrive = [&] {
    if (!arriving) return;
    gpu_.synchronize(arriving->place.done);
    std::memcpy(arriving->to.data(), ring_ + arriving->place.begin, arriving->to.size());
    free_events_.push_back(arriving->place.done);
  };
  while (!host.empty()) {
    const std::size_t bytes = std::min(host.size(), kPieceBytes);
    const Place place = take(bytes);
    gpu_.copy_out(stream, source, ring_ + place.begin, bytes);
    gpu_.record(place.done, stream);
    arrive();
    arriving = Arriving{place, host.first(bytes)};
    host = host.subspan(bytes);
    source += bytes;
  }
  arrive();
}

}  // namespace ddprun::trainer::cuda
