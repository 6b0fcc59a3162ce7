// The hello of proto/frame.hpp.
#include <algorithm>
#include <limits>

#include "proto/error.hpp"
#include "proto/frame.hpp"
#include "proto/json_fields.hpp"

namespace ddprun::proto {
namespace {

/// A hello as it is on the wire.
struct HelloFields {
  std::string ddprun;
  std::vector<int> versions;
  std::vector<std::string> features;
  std::optional<Nonce> nonce;
  Authentication auth = Authentication::none;
  std::string run_id;
  std::string munge;
};

constexpr Limits kAnyTwoInts{.least = std::numeric_limits<int>::min(), .count_max = 2};

}  // namespace

template <>
inline constexpr auto kNames<Authentication> = std::to_array<std::string_view>({"none", "hmac"});
template <>
inline constexpr auto kFields<HelloFields> = std::tuple{
    required("ddprun", &HelloFields::ddprun),
    required("versions", &HelloFields::versions, kAnyTwoInts),
    field("features", &HelloFields::features, list(kFeaturesMax)),
    field("nonce", &HelloFields::nonce),
    field("auth", &HelloFields::auth),
    field("run_id", &HelloFields::run_id),
    field("munge", &HelloFields::munge, kText),
};

std::string encode_hello(const Hello& hello) {
  std::string out;
  write_object(out, HelloFields{hello.kind,
                                {hello.version_min, hello.version_max},
                                hello.features,
                                hello.nonce,
                                hello.auth,
                                hello.run_id,
                                hello.munge});
  return out;
}

Result<Hello> decode_hello(std::string_view body) {
  HelloFields fields;
  const auto document = JsonDocument::parse(body);
  if (!document || !read_object(document->root(), fields) || fields.versions.size() != 2) {
    return make_error_code(Errc::malformed);
  }
  return Hello{fields.ddprun, fields.versions[0], fields.versions[1], fields.features,
               fields.nonce,  fields.auth,        fields.run_id,      fields.munge};
}

Result<int> agree_on_version(const Hello& ours, const Hello& theirs) {
  const int highest = std::min(ours.version_max, theirs.version_max);
  if (ours.kind != theirs.kind || highest < std::max(ours.version_min, theirs.version_min)) {
    return make_error_code(Errc::version_mismatch);
  }
  return highest;
}

bool is_newer(const Hello& theirs, const Hello& ours) {
  const auto is_unknown = [&](const std::string& feature) {
    return std::find(ours.features.begin(), ours.features.end(), feature) == ours.features.end();
  };
  return theirs.version_max > ours.version_max ||
         std::any_of(theirs.features.begin(), theirs.features.end(), is_unknown);
}

}  // namespace ddprun::proto
