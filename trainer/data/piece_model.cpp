#include "trainer/data/piece_model.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <protozero/pbf_reader.hpp>
#include <utility>

#include "base/assert.hpp"
#include "base/printable.hpp"
#include "trainer/data/text_set.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

// Numbers of fields in sentencepiece_model.proto.
constexpr protozero::pbf_tag_type kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3;
constexpr protozero::pbf_tag_type kPieceText = 1, kPieceType = 3;
constexpr int kUnknownType = 2;

constexpr const char* kOtherwise = ", or use --tokens=words or --tokens=bytes";

/// One piece of the model.
struct Piece {
  std::string_view text;
  int type = 1;
};

Piece piece_of(protozero::pbf_reader message) {
  Piece piece;
  while (message.next()) {
    const auto wire = message.wire_type();
    if (message.tag() == kPieceText && wire == protozero::pbf_wire_type::length_delimited) {
      const protozero::data_view text = message.get_view();
      piece.text = {text.data(), text.size()};
    } else if (message.tag() == kPieceType && wire == protozero::pbf_wire_type::varint) {
      piece.type = message.get_enum();
    } else {
      message.skip();
    }
  }
  return piece;
}

void walk(protozero::pbf_reader message) {
  while (message.next()) message.skip();
}

const PieceFunctions* open_plugin(const std::string& folder, const PieceModelTexts& texts) {
  const std::string path = folder + "/" + kPiecePluginFile;
  const std::string failed = texts.name + ": ";
  if (::access(path.c_str(), F_OK) != 0)
    throw DataError(fmt::format(
        "{}this train was built without SentencePiece ({} is missing beside it): install "
        "libsentencepiece-dev and build it again{}",
        failed, kPiecePluginFile, texts.otherwise));
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr)
    throw DataError(fmt::format("{}{} cannot be opened: {}: install libsentencepiece0{}", failed,
                                kPiecePluginFile, dlerror(), texts.otherwise));
  const auto function = reinterpret_cast<PiecePluginFunction>(dlsym(handle, kPiecePluginSymbol));
  const PieceFunctions* const functions = function == nullptr ? nullptr : function();
  if (functions == nullptr || functions->version != kPiecePluginVersion)
    throw DataError(
        fmt::format("{}{} is of another build than train: build or install both together{}", failed,
                    path, texts.otherwise));
  return functions;
}

std::shared_ptr<void> open_model(const PieceFunctions& functions, const std::string& bytes,
                                 const PieceModelTexts& texts) {
  std::string reason = why_no_piece_model(bytes);
  void* model = nullptr;
  if (reason.empty()) {
    std::array<char, 256> why{};
    model = functions.open(bytes.data(), bytes.size(), why.data(), why.size());
    reason = printable(why.data());
  }
  if (model == nullptr)
    throw DataError(
        fmt::format("{}: not a SentencePiece model ({}): {}", texts.name, reason, texts.remedy));
  return {model, functions.close};
}

}  // namespace

std::string why_no_piece_model(std::string_view bytes) {
  std::size_t pieces = 0;
  std::size_t unknown = 0;
  try {
    protozero::pbf_reader message(bytes.data(), bytes.size());
    while (message.next()) {
      const bool is_message = message.wire_type() == protozero::pbf_wire_type::length_delimited;
      if (message.tag() == kPieces && is_message) {
        const Piece piece = piece_of(message.get_message());
        if (piece.text.empty() || piece.text.find('\0') != std::string_view::npos)
          return fmt::format("its piece {} has no text", pieces);
        ++pieces;
        if (piece.type == kUnknownType) ++unknown;
      } else if ((message.tag() == kTrainerSpec || message.tag() == kNormalizerSpec) &&
                 is_message) {
        walk(message.get_message());
      } else {
        message.skip();
      }
    }
  } catch (const protozero::exception&) {
    return "it is damaged, or another kind of file";
  }
  if (pieces == 0) return "it has no piece";
  return unknown == 1 ? "" : fmt::format("it has {} pieces for unknown text, not one", unknown);
}

PieceModelTexts texts_of_given(const std::filesystem::path& file) {
  const std::string option = "--tokens=";
  return {
      .option = option,
      .name = option + printable(file.string()),
      .remedy = std::string("give the .model file that SentencePiece's trainer wrote") + kOtherwise,
      .otherwise = kOtherwise};
}

PieceModelTexts texts_of_kept(const std::filesystem::path& file) {
  const std::string option = "--resume-from: ";
  return {.option = option,
          .name = option + printable(file.string()),
          .remedy = "copy the file of the checkpoint again",
          .otherwise = ""};
}

PieceModel::PieceModel(const std::string& bytes, const PieceModelTexts& texts,
                       const std::string& folder)
    : functions_(open_plugin(folder, texts)),
      model_(open_model(*functions_, bytes, texts)),
      name_(texts.name),
      unknown_(functions_->unknown(model_.get())) {}

int PieceModel::size() const { return kSpecialTokens + functions_->size(model_.get()); }

bool PieceModel::append(std::string_view sentence, int longest,
                        std::vector<std::int32_t>& tokens) const {
  DDPRUN_ASSERT(longest >= 2, "room for <s> and </s>");
  const std::size_t room = static_cast<std::size_t>(longest) - 2;
  std::vector<int> ids(room);
  const long count =
      functions_->encode(model_.get(), sentence.data(), sentence.size(), ids.data(), room);
  if (count < 0)
    throw DataError(fmt::format("{}: SentencePiece cannot split the text \"{}\": remove it", name_,
                                printable(sentence.substr(0, 80))));
  ids.resize(std::min(room, static_cast<std::size_t>(count)));
  tokens.push_back(kBeginToken);
  for (const int id : ids) {
    DDPRUN_ASSERT(id >= 0 && id < size() - kSpecialTokens, "a piece of the model");
    tokens.push_back(id == unknown_ ? kUnknownToken : id + kSpecialTokens);
  }
  tokens.push_back(kEndToken);
  return static_cast<std::size_t>(count) > room;
}

}  // namespace ddprun::trainer
