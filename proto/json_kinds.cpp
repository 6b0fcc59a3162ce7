#include "proto/json_kinds.hpp"

namespace ddprun::proto {

Result<Envelope> open_envelope(std::string_view body) {
  const auto malformed = make_error_code(Errc::malformed);
  auto document = JsonDocument::parse(body);
  if (!document) return malformed;
  std::optional<Envelope> envelope;
  for (const auto& [name, value] : document->root().members()) {
    if (!value.is_object()) continue;
    if (envelope) return malformed;
    envelope = Envelope{*document, name, value, std::nullopt};
  }
  if (!envelope) return malformed;
  if (const auto seq = document->root().member("seq")) {
    envelope->seq = seq->unsigned_number();
    if (!envelope->seq) return malformed;
  }
  return *std::move(envelope);
}

}  // namespace ddprun::proto
