#include "trainer/cuda/input_buffers.hpp"

#include <algorithm>
#include <vector>

#include "base/assert.hpp"
#include "trainer/cuda/launch.hpp"

namespace ddprun::trainer::cuda {
namespace {

/// Of each part in a buffer.
constexpr std::size_t kPartAlignment = 64;

/// Where the parts of inputs lie in a buffer: values, tables, pixels, windows.
class Layout {
 public:
  explicit Layout(const Inputs& inputs) {
    for (const InputValues& one : inputs.values) add(one.from);
    add(std::as_bytes(inputs.images.tables));
    add(std::as_bytes(inputs.images.pixels));
    add(std::as_bytes(inputs.images.windows));
  }
  /// Where the images' parts lie in the buffer.
  [[nodiscard]] const float* tables(const std::byte* buffer) const {
    return reinterpret_cast<const float*>(buffer + from_end(3));
  }
  [[nodiscard]] const std::uint8_t* pixels(const std::byte* buffer) const {
    return reinterpret_cast<const std::uint8_t*>(buffer + from_end(2));
  }
  [[nodiscard]] const ImageWindow* windows(const std::byte* buffer) const {
    return reinterpret_cast<const ImageWindow*>(buffer + from_end(1));
  }
  [[nodiscard]] const std::vector<StagedPart>& parts() const { return parts_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void add(std::span<const std::byte> from) {
    const std::size_t offset = (bytes_ + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
    parts_.push_back({from, offset});
    bytes_ = offset + from.size();
  }
  [[nodiscard]] std::size_t from_end(std::size_t place) const {
    return parts_[parts_.size() - place].offset;
  }
  std::vector<StagedPart> parts_;
  std::size_t bytes_ = 0;
};

PlaceValues place_values(const Inputs& inputs, const Layout& layout, const std::byte* buffer) {
  static_assert(Inputs::kValuesMost == PlaceValues::kPartsMost);
  DDPRUN_ASSERT(inputs.values.size() <= Inputs::kValuesMost, "inputs that one launch can place");
  PlaceValues kernel{};
  for (const InputValues& one : inputs.values) {
    const std::size_t offset = layout.parts()[static_cast<std::size_t>(kernel.part_count)].offset;
    kernel.parts[kernel.part_count++] = {
        .from = reinterpret_cast<const std::uint32_t*>(buffer + offset),
        .to = reinterpret_cast<std::uint32_t*>(one.to.data()),
        .count = one.from.size() / sizeof(std::uint32_t),
        .whole = one.to.size() / sizeof(std::uint32_t)};
  }
  return kernel;
}

template <class T>
PixelsToValues<T> pixels_to(const InputImages& images, const Layout& layout,
                            const std::byte* buffer) {
  return {.pixels = layout.pixels(buffer),
          .tables = layout.tables(buffer),
          .to = reinterpret_cast<T*>(images.to.data()),
          .count = images.values(),
          .whole = images.to.size() / sizeof(T),
          .channels = static_cast<unsigned>(images.channels())};
}

template <class T>
WindowsToValues<T> windows_to(const InputImages& images, const Layout& layout,
                              const std::byte* buffer) {
  return {.values = {.pixels = layout.pixels(buffer),
                     .windows = layout.windows(buffer),
                     .tables = layout.tables(buffer),
                     .sides = images.sides,
                     .channels = static_cast<unsigned>(images.channels())},
          .to = reinterpret_cast<T*>(images.to.data()),
          .count = images.values(),
          .whole = images.to.size() / sizeof(T)};
}

template <class T>
void launch_images(Gpu& gpu, const InputImages& images, const Layout& layout,
                   const std::byte* buffer) {
  const std::size_t elements = images.to.size() / sizeof(T);
  if (images.windows.empty()) {
    launch_over(gpu, elements, pixels_to<T>(images, layout, buffer));
  } else {
    launch_over(gpu, elements, windows_to<T>(images, layout, buffer));
  }
}

}  // namespace

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
  staging_.reserve(layout.bytes());
  gpu_.wait(Stream::copy, buffer.taken);
  staging_.copy_in(Stream::copy, layout.parts(), buffer.memory);
  gpu_.record(buffer.filled, Stream::copy);
  gpu_.wait(Stream::compute, buffer.filled);

  std::size_t most = 0;
  const PlaceValues values = place_values(inputs, layout, buffer.memory);
  for (const PlaceValues::Part& part : values.parts) most = std::max(most, part.whole);
  launch_over(gpu_, most, values);
  const InputImages& images = inputs.images;
  if (images.storage == Storage::fp16) {
    launch_images<Half>(gpu_, images, layout, buffer.memory);
  } else if (images.storage == Storage::bf16) {
    launch_images<BFloat16>(gpu_, images, layout, buffer.memory);
  } else {
    launch_images<float>(gpu_, images, layout, buffer.memory);
  }
  gpu_.record(buffer.taken, Stream::compute);
}

}  // namespace ddprun::trainer::cuda
