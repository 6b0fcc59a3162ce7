// Embeddings and the rows of attention.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/compute/layer_ops.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/cuda/kernel.hpp"
#include "trainer/cuda/kernels/dropout_kernels.hpp"

namespace ddprun::trainer::cuda {

inline constexpr std::size_t kFirstPosition = 2;  ///< RoBERTa's; its padding has 1

/// Token ids of a batch: samples x width.
struct Texts {
  const std::int32_t* tokens;
  const std::int32_t* lengths;
  std::size_t samples, width;
  [[nodiscard]] DDPRUN_HOST_DEVICE bool is_token(std::size_t place) const {
    return place % width < static_cast<std::size_t>(lengths[place / width]);
  }
};

/// T: float, Half, BFloat16.
template <class T>
struct EmbedTokens {
  Texts texts;
  const T* words;
  const T* positions;
  const T* type;
  T* output;
  std::size_t channels;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const std::size_t place = i / channels;
      const std::size_t c = i % channels;
      if (!texts.is_token(place)) {
        store(output[i], 0.0F);
        continue;
      }
      const auto token = static_cast<std::size_t>(texts.tokens[place]);
      const std::size_t position = place % texts.width + kFirstPosition;
      store(output[i], load(words[token * channels + c]) + load(type[c]) +
                           load(positions[position * channels + c]));
    }
  }
};

/// Places with the same token as a chain: of each place the next one, and whether it is the first.
struct TokenLinks {
  std::int32_t* next;      ///< samples x width; kNoPlace: none
  std::int32_t* is_first;  ///< samples x width: 1 or 0
};
inline constexpr std::int32_t kNoPlace = 0x7fffffff;

/// A block a place of the batch.
struct LinkTokens {
  static constexpr int kPhases = kTreePhases + 2;
  struct Found {
    std::int32_t next;
    bool earlier;
    DDPRUN_HOST_DEVICE void operator+=(const Found& more) {
      if (more.next < next) next = more.next;
      earlier = earlier || more.earlier;
    }
  };
  struct Shared {
    BlockTree<Found> tree;
  };
  Texts texts;
  TokenLinks links;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at, int phase, Shared& shared) const {
    const std::size_t own = at.block;
    if (!texts.is_token(own)) return;
    if (phase == 0) {
      const std::int32_t token = texts.tokens[own];
      const std::size_t places = texts.samples * texts.width;
      Found mine{kNoPlace, false};
      for (std::size_t place = at.thread; place < places; place += kBlockThreads) {
        if (place == own || texts.tokens[place] != token || !texts.is_token(place)) continue;
        if (place < own) {
          mine.earlier = true;
        } else {
          mine.next = static_cast<std::int32_t>(place);
          break;
        }
      }
      shared.tree.places[at.thread] = mine;
    } else if (phase <= kTreePhases) {
      shared.tree.add(at.thread, phase);
    } else if (at.thread == 0) {
      links.next[own] = shared.tree.places[0].next;
      links.is_first[own] = shared.tree.places[0].earlier ? 0 : 1;
    }
  }
};

/// A block a place of the batch: if no earlier one has its token, it sums the slopes of all places
/// that have it, in their order, and adds that to the table.
template <class T>
struct WordGradient {
  Texts texts;
  TokenLinks links;
  const T* slopes;
  float* words;
  std::size_t channels;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    const std::size_t own = at.block;
    if (!texts.is_token(own) || links.is_first[own] == 0) return;
    float* const word = words + static_cast<std::size_t>(texts.tokens[own]) * channels;
    for (std::size_t c = at.thread; c < channels; c += kBlockThreads) {
      float sum = 0;
      for (auto place = static_cast<std::int32_t>(own); place != kNoPlace;
           place = links.next[place])
        sum += load(slopes[static_cast<std::size_t>(place) * channels + c]);
      word[c] += sum;
    }
  }
};

/// Adds the sums over the samples that are so long to the table.
template <class T>
struct PositionGradient {
  Texts texts;
  const T* slopes;
  float* positions;
  std::size_t channels;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < texts.width * channels; i += at.stride()) {
      const std::size_t position = i / channels;
      float sum = 0;
      for (std::size_t sample = 0; sample < texts.samples; ++sample) {
        const std::size_t place = sample * texts.width + position;
        if (texts.is_token(place)) sum += load(slopes[place * channels + i % channels]);
      }
      positions[kFirstPosition * channels + i] += sum;
    }
  }
};

/// How the values of tokens are cut into heads.
struct HeadShape {
  unsigned heads, width, channels, head;  ///< channels = heads x head

  /// The place of a sample, token and channel in samples x heads x `rows` x head.
  [[nodiscard]] DDPRUN_HOST_DEVICE std::size_t place(unsigned sample, unsigned token, unsigned rows,
                                                     unsigned channel) const {
    const std::size_t pair = std::size_t{sample} * heads + channel / head;
    return (pair * rows + token) * head + channel % head;
  }
};
inline constexpr unsigned kHeadPartsMost = 3;  ///< queries, keys, values

/// A block a token: samples x width x parts x channels to parts of samples x heads x width x head.
template <class T>
struct SplitHeads {
  HeadShape shape;
  const T* from;
  T* parts[kHeadPartsMost];
  unsigned part_count = 0;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    const unsigned all = part_count * shape.channels;
    const T* const token = from + std::size_t{at.block} * all;
    for (unsigned i = at.thread; i < all; i += kBlockThreads) {
      const std::size_t place = shape.place(at.block / shape.width, at.block % shape.width,
                                            shape.width, i % shape.channels);
      parts[i / shape.channels][place] = token[i];
    }
  }
};

/// The other way round. The first part has `first_rows` tokens a head; behind them its values are
/// 0.
template <class T>
struct MergeHeads {
  HeadShape shape;
  const T* parts[kHeadPartsMost];
  unsigned part_count = 0;
  unsigned first_rows;
  T* to;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    const unsigned all = part_count * shape.channels;
    const unsigned token = at.block % shape.width;
    for (unsigned i = at.thread; i < all; i += kBlockThreads) {
      const unsigned part = i / shape.channels;
      const unsigned rows = part == 0 ? first_rows : shape.width;
      T& value = to[std::size_t{at.block} * all + i];
      if (token < rows) {
        value = parts[part][shape.place(at.block / shape.width, token, rows, i % shape.channels)];
      } else {
        store(value, 0.0F);
      }
    }
  }
};

/// Where the rows of attention scores lie: (sample x heads + head) x queries rows of `width`.
struct AttentionRows {
  const std::int32_t* lengths;
  std::size_t heads, queries, width;
  std::size_t count;      ///< of rows
  std::size_t positions;  ///< the mask's: the most tokens of a sample
  bool drops;
  MaskPlace place;

  /// Tokens that a row reads; 0: its query is padding.
  [[nodiscard]] DDPRUN_HOST_DEVICE std::size_t length(std::size_t row) const {
    const auto length = static_cast<std::size_t>(lengths[row / queries / heads]);
    return row % queries < length ? length : 0;
  }
  /// For factor(). Of no meaning where nothing is dropped.
  [[nodiscard]] DDPRUN_HOST_DEVICE DropoutMask mask() const {
    return drops ? place.mask() : DropoutMask{place.rate, place.place};
  }
  [[nodiscard]] DDPRUN_HOST_DEVICE float factor(const DropoutMask& mask, std::size_t row,
                                                std::size_t key) const {
    if (!drops) return 1;
    const std::size_t pair = row / queries;
    return mask.factor((pair * positions + row % queries) * positions + key);
  }
};

/// Rows of attention are short, so a block has several, with kRowLanes threads each.
inline constexpr std::size_t kRowLanes = 32;
inline constexpr std::size_t kBlockRows = kBlockThreads / kRowLanes;

/// As BlockTree, for each row of a block.
inline constexpr int kRowTreePhases = 5;
static_assert(std::size_t{1} << kRowTreePhases == kRowLanes);
template <class Value>
struct RowTrees {
  Value places[kBlockThreads];
  DDPRUN_HOST_DEVICE void add(unsigned thread, int phase) {
    const std::size_t half = kRowLanes >> phase;
    if (thread % kRowLanes < half) places[thread] += places[thread + half];
  }
  /// The sum of this thread's row.
  [[nodiscard]] DDPRUN_HOST_DEVICE const Value& sum(unsigned thread) const {
    return places[thread / kRowLanes * kRowLanes];
  }
};

/// The row and the lane of a thread.
struct RowPlace {
  std::size_t row, lane;
  DDPRUN_HOST_DEVICE explicit RowPlace(const ThreadPlace& at)
      : row(at.block * kBlockRows + at.thread / kRowLanes), lane(at.thread % kRowLanes) {}
};

/// The larger one: what a tree needs to call +=.
struct Largest {
  float value;
  DDPRUN_HOST_DEVICE void operator+=(const Largest& other) {
    if (other.value > value) value = other.value;
  }
};

/// kBlockRows rows a block: scores to probabilities with their dropout. Behind the length, and in
/// rows of padding, 0.
template <class T>
struct AttentionForward {
  static constexpr int kPhases = 2 * (kRowTreePhases + 1) + 1;
  struct Shared {
    union {
      RowTrees<Largest> largest;
      RowTrees<float> sum;
    };
    float most[kBlockRows];
  };
  AttentionRows rows;
  const float* scores;
  T* probabilities;
  SoftmaxRow* saved;

  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at, int phase, Shared& shared) const {
    constexpr int kSum = kRowTreePhases + 1;
    const RowPlace own(at);
    if (own.row >= rows.count) return;
    const std::size_t length = rows.length(own.row);
    const float* const x = scores + own.row * rows.width;
    float& most = shared.most[at.thread / kRowLanes];
    if (phase == 0) {
      Largest mine{x[0]};
      for (std::size_t i = own.lane; i < length; i += kRowLanes) mine += Largest{x[i]};
      shared.largest.places[at.thread] = mine;
    } else if (phase < kSum) {
      shared.largest.add(at.thread, phase);
      if (phase == kRowTreePhases && own.lane == 0) most = shared.largest.places[at.thread].value;
    } else if (phase == kSum) {
      float sum = 0;
      for (std::size_t i = own.lane; i < length; i += kRowLanes) sum += exponential(x[i] - most);
      shared.sum.places[at.thread] = sum;
    } else if (phase < kPhases - 1) {
      shared.sum.add(at.thread, phase - kSum);
    } else {
      const SoftmaxRow softmax{most, 1.0F / shared.sum.sum(at.thread)};
      if (own.lane == 0 && saved != nullptr) saved[own.row] = softmax;
      write(own, length, softmax);
    }
  }

 private:
  DDPRUN_HOST_DEVICE void write(const RowPlace& own, std::size_t length,
                                const SoftmaxRow& softmax) const {
    const DropoutMask mask = rows.mask();
    for (std::size_t i = own.lane; i < rows.width; i += kRowLanes) {
      const std::size_t k = own.row * rows.width + i;
      const float p = i < length
                          ? softmax_probability(scores[k], softmax) * rows.factor(mask, own.row, i)
                          : 0.0F;
      store(probabilities[k], p);
    }
  }
};

/// kBlockRows rows a block: the probabilities with their dropout once more, and the slopes of the
/// scores.
template <class T>
struct AttentionGradient {
  static constexpr int kPhases = kRowTreePhases + 2;
  struct Shared {
    RowTrees<float> trees;
  };
  AttentionRows rows;
  const float* scores;
  const float* slopes;  ///< of what the output read
  const SoftmaxRow* saved;
  T* probabilities;
  T* score_slopes;

  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at, int phase, Shared& shared) const {
    const RowPlace own(at);
    if (own.row >= rows.count) return;
    if (phase == 0) {
      const std::size_t length = rows.length(own.row);
      const DropoutMask mask = rows.mask();
      const SoftmaxRow softmax = saved[own.row];
      const std::size_t first = own.row * rows.width;
      float sum = 0;
      for (std::size_t i = own.lane; i < length; i += kRowLanes)
        sum += slopes[first + i] * rows.factor(mask, own.row, i) *
               softmax_probability(scores[first + i], softmax);
      shared.trees.places[at.thread] = sum;
    } else if (phase <= kRowTreePhases) {
      shared.trees.add(at.thread, phase);
    } else {
      write(own, shared.trees.sum(at.thread));
    }
  }

 private:
  DDPRUN_HOST_DEVICE void write(const RowPlace& own, float sum) const {
    const std::size_t length = rows.length(own.row);
    const DropoutMask mask = rows.mask();
    const SoftmaxRow softmax = saved[own.row];
    for (std::size_t i = own.lane; i < rows.width; i += kRowLanes) {
      const std::size_t k = own.row * rows.width + i;
      float p = 0;
      float slope = 0;
      if (i < length) {
        const float factor = rows.factor(mask, own.row, i);
        p = softmax_probability(scores[k], softmax);
        slope = softmax_gradient(p, slopes[k], factor, sum);
        p *= factor;
      }
      store(probabilities[k], p);
      store(score_slopes[k], slope);
    }
  }
};

template <class T>
using TextKernelsOf =
    KernelList<EmbedTokens<T>, WordGradient<T>, PositionGradient<T>, SplitHeads<T>, MergeHeads<T>,
               AttentionForward<T>, AttentionGradient<T>>;
using TextKernels = Concatenated<KernelList<LinkTokens>, TextKernelsOf<float>, TextKernelsOf<Half>,
                                 TextKernelsOf<BFloat16>>::type;

}  // namespace ddprun::trainer::cuda
