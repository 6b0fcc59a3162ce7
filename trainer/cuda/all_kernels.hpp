// Every kernel of the trainer. Its place in this list is its number.
#pragma once

#include "trainer/cuda/kernel.hpp"
#include "trainer/cuda/kernels/arena_kernels.hpp"
#include "trainer/cuda/kernels/dropout_kernels.hpp"
#include "trainer/cuda/kernels/element_kernels.hpp"
#include "trainer/cuda/kernels/input_kernels.hpp"
#include "trainer/cuda/kernels/loss_kernels.hpp"
#include "trainer/cuda/kernels/norm_kernels.hpp"
#include "trainer/cuda/kernels/pool_kernels.hpp"
#include "trainer/cuda/kernels/sum_kernels.hpp"
#include "trainer/cuda/kernels/text_kernels.hpp"

namespace ddprun::trainer::cuda {

using AllKernels =
    Concatenated<ArenaKernels, DropoutKernels, ElementKernels, InputKernels, LossKernels,
                 NormKernels, PoolKernels, SumKernels, TextKernels>::type;

}  // namespace ddprun::trainer::cuda
