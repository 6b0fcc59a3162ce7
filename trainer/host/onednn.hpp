// What all calls of oneDNN share. Its interfaces of 2.x and 3.x differ: only files that include
// this one see either.
#pragma once

#include <cstddef>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "trainer/compute/numeric.hpp"
#include "trainer/model/layer.hpp"

namespace ddprun::trainer::onednn {

using dnnl::memory;

inline const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

/// The calling thread's stream: what runs in it has the threads that set_thread_count() gave this
/// one.
dnnl::stream& stream();

inline dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attributes;
  // Memory of our own: nothing is shared between executors that run side by side, nothing is
  // allocated in a step.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  // Whatever ONEDNN_DEFAULT_FPMATH_MODE says: fp32 means fp32.
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attributes;
}

/// Describes a forward primitive from the arguments that both interfaces share.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {cpu(), arguments..., attributes()};
#else
  return {typename Primitive::desc(arguments...), attributes(), cpu()};
#endif
}

/// Describes a backward primitive, which wants its forward one's description as a hint.
template <class Primitive, class Hint, class... Arguments>
typename Primitive::primitive_desc describe_backward(const Hint& hint,
                                                     const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {cpu(), arguments..., hint, attributes()};
#else
  return {typename Primitive::desc(arguments...), attributes(), cpu(), hint};
#endif
}

inline memory::data_type type_of(Storage storage) {
  return storage == Storage::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

inline memory::desc activations(int batch, const ActivationShape& shape, Storage storage) {
  return {{batch, shape.channels, shape.height, shape.width},
          type_of(storage),
          memory::format_tag::nhwc};
}

/// fp32: gradients of parameters, and what is kept in fp32 always.
inline memory::desc plain(memory::dims dims, memory::format_tag tag,
                          Storage storage = Storage::fp32) {
  return {std::move(dims), type_of(storage), tag};
}

inline std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// A primitive with its memory objects; pointers are set before each run.
class Kernel {
 public:
  template <class Description>
  Kernel(const Description& description, dnnl::primitive primitive)
      : primitive_(std::move(primitive)),
        scratch_bytes_(aligned(description.scratchpad_desc().get_size())) {
    declare(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
  }
  void declare(int argument, const memory::desc& desc) {
    arguments_.emplace(argument, memory(desc, cpu(), nullptr));
  }
  void set(int argument, const void* data) {
    // oneDNN's handles are not const; it does not write to inputs.
    arguments_.at(argument).set_data_handle(const_cast<void*>(data));
  }
  /// `scratch`: scratch_bytes() of memory, as it may be.
  void run(std::byte* scratch) {
    set(DNNL_ARG_SCRATCHPAD, scratch);
    primitive_.execute(stream(), arguments_);
    stream().wait();
  }
  [[nodiscard]] std::size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  dnnl::primitive primitive_;
  std::size_t scratch_bytes_;
  std::unordered_map<int, memory> arguments_;
};

}  // namespace ddprun::trainer::onednn
