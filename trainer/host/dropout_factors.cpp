#include "trainer/host/dropout_factors.hpp"

#include "trainer/host/vector_clones.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kBlock = 4;  // elements that one block of random words serves
constexpr std::size_t kBlocks = kFactorPiece / kBlock;

}  // namespace

DDPRUN_VECTOR_CLONES
void fill_factors(const DropoutMask& mask, std::uint64_t first, std::size_t count,
                  float* __restrict factors) {
  const DropoutMask own = mask;  // which nothing written here can change
  std::uint32_t words[kBlock][kBlocks];
  auto block = static_cast<std::uint32_t>(first / kBlock);
  for (std::size_t begin = 0; begin < count; begin += kFactorPiece, block += kBlocks) {
    for (std::uint32_t b = 0; b < kBlocks; ++b) {
      const PhiloxBlock random = own.words(block + b);
      for (std::size_t k = 0; k < kBlock; ++k) words[k][b] = random.word[k];
    }
    for (std::size_t b = 0; b < kBlocks; ++b)
      for (std::size_t k = 0; k < kBlock; ++k)
        factors[begin + kBlock * b + k] = own.factor_of_word(words[k][b]);
  }
}

}  // namespace ddprun::trainer
