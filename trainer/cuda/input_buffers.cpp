#include "trainer/cuda/input_buffers.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/rounded_up.hpp"
#include "trainer/cuda/launch.hpp"

namespace ddprun::trainer::cuda {
namespace {

/// Copies of their own begin on a line of the cache.
constexpr std::size_t kAlignment = 64;

/// Each part of a buffer begins at a multiple of so many bytes.
constexpr std::size_t kPartAlignment = 64;

/// Where the parts of inputs lie in a buffer: what is copied in one piece, and behind it what is
/// gathered there. Parts: each of the values; tables, pixels and windows of images; those of masks.
class Layout {
 public:
  struct Part {
    std::span<const std::byte> host;  ///< to copy; of stored samples: where they lie
    const StoredRows* stored = nullptr;
    std::size_t copied = 0;  ///< where `host` goes
    std::size_t data = 0;    ///< where the part's bytes are in the end
  };

  explicit Layout(const Inputs& inputs) {
    for (const InputValues& one : inputs.values) add(one.from, one.stored);
    for (const InputImages* images : {&inputs.images, &inputs.masks}) {
      add(std::as_bytes(images->tables));
      add(std::as_bytes(images->pixels), images->stored);
      add(std::as_bytes(images->windows));
    }
    for (Part& part : parts_) {
      part.copied = take(part.host.size());
      copies_.push_back({part.host, part.copied});
    }
    copied_bytes_ = bytes_;
    for (Part& part : parts_)
      part.data = part.stored == nullptr ? part.copied : take(part.stored->bytes());
  }

  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  [[nodiscard]] const std::vector<StagedPart>& copies() const { return copies_; }
  [[nodiscard]] std::size_t copied_bytes() const { return copied_bytes_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void add(std::span<const std::byte> host, const StoredRows& stored = {}) {
    if (stored.rows.empty()) {
      parts_.push_back({host});
    } else {
      parts_.push_back({std::as_bytes(stored.rows), &stored});
    }
  }
  std::size_t take(std::size_t bytes) {
    const std::size_t offset = rounded_up(bytes_, kPartAlignment);
    bytes_ = offset + bytes;
    return offset;
  }
  std::vector<Part> parts_;
  std::vector<StagedPart> copies_;
  std::size_t copied_bytes_ = 0;
  std::size_t bytes_ = 0;
};

bool is_in_words(const StoredRows& stored) {
  constexpr std::size_t kWord = sizeof(std::uint32_t);
  return stored.row_bytes % kWord == 0 &&
         std::all_of(stored.rows.begin(), stored.rows.end(), [](const StoredRow& row) {
           return row.begin % kWord == 0 && row.size % kWord == 0;
         });
}

template <class Word>
void launch_gather(Gpu& gpu, const Layout::Part& part, std::byte* buffer) {
  const StoredRows& stored = *part.stored;
  const GatherRows<Word> kernel{.set = reinterpret_cast<const Word*>(stored.set.data()),
                                .rows = reinterpret_cast<const StoredRow*>(buffer + part.copied),
                                .to = reinterpret_cast<Word*>(buffer + part.data),
                                .count = stored.bytes() / sizeof(Word),
                                .row_words = stored.row_bytes / sizeof(Word)};
  launch_over(gpu, kernel.count, kernel, Stream::copy);
}

void gather(Gpu& gpu, const Layout::Part& part, std::byte* buffer) {
  if (is_in_words(*part.stored)) {
    launch_gather<std::uint32_t>(gpu, part, buffer);
  } else {
    launch_gather<std::uint8_t>(gpu, part, buffer);
  }
}

PlaceValues place_values(const Inputs& inputs, const Layout& layout, const std::byte* buffer) {
  static_assert(Inputs::kValuesMost == PlaceValues::kPartsMost);
  DDPRUN_ASSERT(inputs.values.size() <= Inputs::kValuesMost, "inputs that one launch can place");
  PlaceValues kernel{};
  for (const InputValues& one : inputs.values) {
    const std::size_t offset = layout.parts()[static_cast<std::size_t>(kernel.part_count)].data;
    kernel.parts[kernel.part_count++] = {
        .from = reinterpret_cast<const std::uint32_t*>(buffer + offset),
        .to = reinterpret_cast<std::uint32_t*>(one.to.data()),
        .count = one.bytes() / sizeof(std::uint32_t),
        .whole = one.to.size() / sizeof(std::uint32_t)};
  }
  return kernel;
}

/// The parts of images in the GPU's memory.
struct ImageParts {
  const float* tables;
  const std::uint8_t* pixels;
  const ImageWindow* windows;
};
/// `first`: the number of their first part.
ImageParts image_parts(const Layout& layout, std::size_t first, const std::byte* buffer) {
  const auto at = [&](std::size_t part) { return buffer + layout.parts()[first + part].data; };
  return {.tables = reinterpret_cast<const float*>(at(0)),
          .pixels = reinterpret_cast<const std::uint8_t*>(at(1)),
          .windows = reinterpret_cast<const ImageWindow*>(at(2))};
}

template <class T>
PixelsToValues<T> pixels_to(const InputImages& images, const ImageParts& parts) {
  return {.pixels = parts.pixels,
          .tables = parts.tables,
          .to = reinterpret_cast<T*>(images.to.data()),
          .count = images.values(),
          .whole = images.to.size() / sizeof(T),
          .channels = static_cast<unsigned>(images.channels())};
}

template <class T>
WindowsToValues<T> windows_to(const InputImages& images, const ImageParts& parts) {
  return {.values = {.pixels = parts.pixels,
                     .windows = parts.windows,
                     .tables = parts.tables,
                     .sides = images.sides,
                     .channels = static_cast<unsigned>(images.channels())},
          .to = reinterpret_cast<T*>(images.to.data()),
          .count = images.values(),
          .whole = images.to.size() / sizeof(T)};
}

template <class T>
void launch_images(Gpu& gpu, const InputImages& images, const ImageParts& parts) {
  const std::size_t elements = images.to.size() / sizeof(T);
  if (images.windows.empty()) {
    launch_over(gpu, elements, pixels_to<T>(images, parts));
  } else {
    launch_over(gpu, elements, windows_to<T>(images, parts));
  }
}

void place_images(Gpu& gpu, const InputImages& images, const ImageParts& parts) {
  if (images.storage == Storage::fp16) {
    launch_images<Half>(gpu, images, parts);
  } else if (images.storage == Storage::bf16) {
    launch_images<BFloat16>(gpu, images, parts);
  } else {
    launch_images<float>(gpu, images, parts);
  }
}

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

InputBuffers::InputBuffers(Gpu& gpu) : gpu_(gpu), staging_(gpu) {
  for (Buffer& buffer : buffers_) {
    buffer.filled = gpu.make_event();
    buffer.taken = gpu.make_event();
  }
}

InputBuffers::~InputBuffers() {
  for (const Buffer& buffer : buffers_)
    if (buffer.memory != nullptr) gpu_.release(buffer.memory);
}

void InputBuffers::grow(Buffer& buffer, std::size_t bytes) {
  if (buffer.bytes >= bytes) return;
  if (buffer.memory != nullptr) gpu_.release(buffer.memory);
  buffer.memory = nullptr;
  buffer.bytes = 0;
  buffer.memory = gpu_.allocate(bytes);
  buffer.bytes = bytes;
}

void InputBuffers::feed(const Inputs& inputs) {
  const Layout layout(inputs);
  Buffer& buffer = buffers_[next_];
  next_ = 1 - next_;
  grow(buffer, layout.bytes());
  staging_.reserve(layout.copied_bytes());
  gpu_.wait(Stream::copy, buffer.taken);
  staging_.copy_in(Stream::copy, layout.copies(), buffer.memory);
  for (const Layout::Part& part : layout.parts())
    if (part.stored != nullptr) gather(gpu_, part, buffer.memory);
  gpu_.record(buffer.filled, Stream::copy);
  gpu_.wait(Stream::compute, buffer.filled);

  std::size_t most = 0;
  const PlaceValues values = place_values(inputs, layout, buffer.memory);
  for (const PlaceValues::Part& part : values.parts) most = std::max(most, part.whole);
  launch_over(gpu_, most, values);
  const std::size_t images = inputs.values.size();
  place_images(gpu_, inputs.images, image_parts(layout, images, buffer.memory));
  place_images(gpu_, inputs.masks, image_parts(layout, images + 3, buffer.memory));
  gpu_.record(buffer.taken, Stream::compute);
}

}  // namespace ddprun::trainer::cuda
