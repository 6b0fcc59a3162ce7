#include "trainer/cuda/plugin/all_launchers.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <typeinfo>

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::cuda {
namespace {

/// The number of a subject's first kernel.
template <class First, class... Rest>
std::size_t begin_of(KernelList<First, Rest...> /*list*/) {
  return static_cast<std::size_t>(PlaceIn<First, AllKernels>::value);
}

template <class List>
void place(List list, const std::vector<KernelLauncher>& launchers,
           std::vector<KernelLauncher>& all) {
  if (launchers.size() != static_cast<std::size_t>(List::kSize))
    throw std::logic_error("a subject's kernels and their launchers differ in number");
  std::copy(launchers.begin(), launchers.end(),
            all.begin() + static_cast<std::ptrdiff_t>(begin_of(list)));
}

template <class... Kernels>
const char* mangled_name(KernelList<Kernels...> /*list*/, int number) {
  constexpr std::array<const std::type_info*, sizeof...(Kernels)> kinds{&typeid(Kernels)...};
  return kinds.at(static_cast<std::size_t>(number))->name();
}

}  // namespace

std::string kernel_name(int number) {
  const char* const mangled = mangled_name(AllKernels(), number);
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &failed), std::free);
  return failed == 0 ? name.get() : mangled;
}

std::vector<KernelLauncher> all_launchers() {
  std::vector<KernelLauncher> all(AllKernels::kSize, nullptr);
  place(ArenaKernels(), arena_launchers(), all);
  place(DropoutKernels(), dropout_launchers(), all);
  place(ElementKernels(), element_launchers(), all);
  place(InputKernels(), input_launchers(), all);
  place(LossKernels(), loss_launchers(), all);
  place(NormKernels(), norm_launchers(), all);
  place(PoolKernels(), pool_launchers(), all);
  place(SumKernels(), sum_launchers(), all);
  place(TextKernels(), text_launchers(), all);
  if (std::count(all.begin(), all.end(), nullptr) > 0)
    throw std::logic_error("a kernel of AllKernels has no launcher");
  return all;
}

}  // namespace ddprun::trainer::cuda
