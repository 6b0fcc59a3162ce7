// The one function that libtrain_sentencepiece.so exports.
#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <type_traits>
#include <vector>

#include "trainer/data/piece_plugin.hpp"

// Not in the library's header, and not in all of its versions.
namespace sentencepiece {
namespace logging {
__attribute__((weak)) void SetMinLogLevel(int level);
}
__attribute__((weak)) void SetMinLogLevel(int level);
}  // namespace sentencepiece

namespace ddprun::trainer {
namespace {

using Model = sentencepiece::SentencePieceProcessor;

/// The library prints to stderr.
void silence() {
  constexpr int kNothing = 4;  // its levels are 0 to 3
  if (sentencepiece::logging::SetMinLogLevel != nullptr)
    sentencepiece::logging::SetMinLogLevel(kNothing);
  if (sentencepiece::SetMinLogLevel != nullptr) sentencepiece::SetMinLogLevel(kNothing);
}

const Model& model_of(const void* model) { return *static_cast<const Model*>(model); }

void* open_model(const char* bytes, std::size_t size, char* why, std::size_t why_bytes) {
  const auto refuse = [&](const char* text) {
    std::snprintf(why, why_bytes, "%s", text);
    return nullptr;
  };
  try {
    silence();
    auto model = std::make_unique<Model>();
    const auto status = model->LoadFromSerializedProto({bytes, size});
    if (!status.ok()) return refuse(status.message());
    return model.release();
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
}

void close_model(void* model) { delete static_cast<Model*>(model); }

int size_of_model(const void* model) { return model_of(model).GetPieceSize(); }

int unknown_id(const void* model) { return model_of(model).unk_id(); }

long encode(const void* model, const char* sentence, std::size_t bytes, int* ids,
            std::size_t most) {
  try {
    std::vector<int> all;
    if (!model_of(model).Encode({sentence, bytes}, &all).ok()) return -1;
    std::copy_n(all.begin(), std::min(most, all.size()), ids);
    return static_cast<long>(all.size());
  } catch (const std::exception&) {
    return -1;
  }
}

constexpr PieceFunctions kFunctions{.open = open_model,
                                    .close = close_model,
                                    .size = size_of_model,
                                    .unknown = unknown_id,
                                    .encode = encode};

}  // namespace
}  // namespace ddprun::trainer

extern "C" __attribute__((visibility("default"))) const ddprun::trainer::PieceFunctions*
ddprun_train_sentencepiece() {
  return &ddprun::trainer::kFunctions;
}
static_assert(
    std::is_same_v<decltype(&ddprun_train_sentencepiece), ddprun::trainer::PiecePluginFunction>);
