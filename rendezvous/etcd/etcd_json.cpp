#include "rendezvous/etcd/etcd_json.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <sodium.h>

#include "base/number_in.hpp"
#include "base/printable.hpp"
#include "proto/json_document.hpp"

namespace ddprun::rdzv {

std::string base64_of(std::string_view bytes) {
  constexpr int kVariant = sodium_base64_VARIANT_ORIGINAL;
  std::string text(sodium_base64_encoded_len(bytes.size(), kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                    bytes.size(), kVariant);
  text.pop_back();  // the end of a C string
  return text;
}

std::optional<std::string> base64_decoded(std::string_view text) {
  // libsodium 1.0.18 takes bytes above 127 for digits.
  const auto is_ascii = [](unsigned char one) { return one < 0x80; };
  if (!std::all_of(text.begin(), text.end(), is_ascii)) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  std::size_t size = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &size, nullptr,
                        sodium_base64_VARIANT_ORIGINAL) != 0) {
    return std::nullopt;
  }
  bytes.resize(size);
  return bytes;
}

namespace {

using proto::JsonDocument;
using proto::JsonValue;

constexpr std::size_t kReasonBytesMax = 300;
/// A token in JWT has about 1,000.
constexpr std::size_t kTokenBytesMax = 8'000;

// ---- writing ----

void append_bytes(std::string& out, std::string_view name, std::string_view bytes) {
  out += fmt::format("\"{}\":\"{}\"", name, base64_of(bytes));
}

/// What is no ASCII stays: etcd takes UTF-8.
void append_text(std::string& out, std::string_view name, std::string_view text) {
  out += fmt::format("\"{}\":\"", name);
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < ' ') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_number(std::string& out, std::string_view name, std::int64_t number) {
  out += fmt::format("\"{}\":\"{}\"", name, number);
}

void append_keys(std::string& out, std::string_view key, std::string_view end) {
  append_bytes(out, "key", key);
  if (end.empty()) return;
  out += ',';
  append_bytes(out, "range_end", end);
}

void append_compare(std::string& out, const EtcdCompare& compare) {
  const bool is_create = compare.what == EtcdCompare::What::create_revision;
  out += fmt::format("{{\"result\":\"EQUAL\",\"target\":\"{}\",", is_create ? "CREATE" : "MOD");
  append_bytes(out, "key", compare.key);
  out += ',';
  append_number(out, is_create ? "create_revision" : "mod_revision", compare.revision);
  out += '}';
}

void append_change(std::string& out, const EtcdChange& change) {
  if (const auto* put = std::get_if<EtcdPut>(&change)) {
    out += "{\"request_put\":{";
    append_bytes(out, "key", put->key);
    out += ',';
    append_bytes(out, "value", put->value);
    if (put->lease != 0) {
      out += ',';
      append_number(out, "lease", put->lease);
    }
  } else {
    const auto& range = std::get<EtcdDelete>(change);
    out += "{\"request_delete_range\":{";
    append_keys(out, range.key, range.end);
  }
  out += "}}";
}

template <class Items, class Append>
void append_list(std::string& out, std::string_view name, const Items& items, Append append) {
  out += fmt::format("\"{}\":[", name);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ',';
    append(out, items[i]);
  }
  out += ']';
}

// ---- reading ----

EtcdFault not_understood() {
  return {EtcdFault::Kind::refused,
          "the answer is not that of an etcd: check the host and the port"};
}

/// A number, as itself or as a text; left out: 0.
std::optional<std::int64_t> number_of(JsonValue object, std::string_view name) {
  const auto value = object.member(name);
  if (!value) return 0;
  if (const auto text = value->text()) return number_in<std::int64_t>(*text);
  return value->signed_number();
}

std::optional<std::int64_t> count_of(JsonValue object, std::string_view name) {
  const auto number = number_of(object, name);
  return number && *number >= 0 ? number : std::nullopt;
}

std::optional<std::string> bytes_of(JsonValue object, std::string_view name) {
  const auto value = object.member(name);
  if (!value) return std::string();
  const auto text = value->text();
  return text ? base64_decoded(*text) : std::nullopt;
}

/// Left out: false.
std::optional<bool> flag_of(JsonValue object, std::string_view name) {
  const auto value = object.member(name);
  return value ? value->boolean() : false;
}

std::optional<EtcdRevision> revision_of(JsonValue answer) {
  const auto header = answer.member("header");
  if (!header) return std::nullopt;
  const auto revision = count_of(*header, "revision");
  return revision && *revision > 0 ? revision : std::nullopt;
}

std::optional<EtcdKeyValue> key_value_of(JsonValue object) {
  auto key = bytes_of(object, "key");
  auto value = bytes_of(object, "value");
  const auto created = count_of(object, "create_revision");
  const auto changed = count_of(object, "mod_revision");
  const auto lease = number_of(object, "lease");
  if (!object.is_object() || !key || key->empty() || !value || !created || !changed || !lease)
    return std::nullopt;
  return EtcdKeyValue{std::move(*key), std::move(*value), *created, *changed, *lease};
}

/// The keys in an answer to a range.
std::optional<std::vector<EtcdKeyValue>> keys_of(JsonValue answer) {
  std::vector<EtcdKeyValue> keys;
  const auto list = answer.member("kvs");
  if (!list) return keys;
  const auto size = list->array_size();
  if (!size) return std::nullopt;
  for (std::size_t i = 0; i < *size; ++i) {
    auto one = key_value_of(list->element(i));
    if (!one) return std::nullopt;
    keys.push_back(std::move(*one));
  }
  return keys;
}

/// What a transaction has read instead of changing anything.
bool read_responses(JsonValue answer, std::size_t reads,
                    std::vector<std::optional<EtcdKeyValue>>& read) {
  const auto list = answer.member("responses");
  const auto size = list ? list->array_size() : std::optional<std::size_t>(0);
  if (!size || *size != reads) return false;
  for (std::size_t i = 0; i < reads; ++i) {
    const auto range = list->element(i).member("response_range");
    if (!range) return false;
    auto keys = keys_of(*range);
    if (!keys || keys->size() > 1) return false;
    read.push_back(keys->empty() ? std::nullopt : std::optional(std::move(keys->front())));
  }
  return true;
}

/// The bytes as an object; none: they are something else.
std::optional<JsonDocument> object_in(std::string_view body) {
  if (body.size() > kEtcdAnswerBytesMax) return std::nullopt;
  auto document = JsonDocument::parse(body);
  if (!document || !document->root().is_object()) return std::nullopt;
  return document;
}

// ---- faults ----

// Codes of gRPC.
constexpr std::int64_t kDeadlineExceeded = 4;
constexpr std::int64_t kPermissionDenied = 7;
constexpr std::int64_t kResourceExhausted = 8;
constexpr std::int64_t kOutOfRange = 11;
constexpr std::int64_t kUnavailable = 14;
constexpr std::int64_t kUnauthenticated = 16;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

EtcdFault fault_of_code(std::int64_t code, std::string_view text, std::string_view member,
                        const EtcdWords& words) {
  using Kind = EtcdFault::Kind;
  const std::string reason =
      fmt::format("etcd at {}: {}", member, printable(text.substr(0, kReasonBytesMax)));
  if (contains(text, "database space exceeded"))
    return {
        Kind::no_space,
        fmt::format("etcd at {} is out of space (alarm NOSPACE) and takes no writes: compact and "
                    "defragment it (etcdctl compact, etcdctl defrag), then type etcdctl alarm "
                    "disarm",
                    member)};
  if (contains(text, "corrupt cluster"))
    return {Kind::refused,
            fmt::format("etcd at {} refuses all requests, because the data of its members differ "
                        "(alarm CORRUPT): compare them (etcdctl endpoint hashkv --cluster), "
                        "replace the member that differs, then type etcdctl alarm disarm",
                        member)};
  if (contains(text, "request is too large"))
    return {Kind::refused, fmt::format("etcd at {} does not take requests of 1 MiB: start it with "
                                       "--max-request-bytes=1572864, which is its default, or more",
                                       member)};
  if (contains(text, "invalid user ID or password"))
    return {Kind::needs_user,
            fmt::format("etcd at {} does not know this user or password: correct {} and {}{} "
                        "(etcdctl user list)",
                        member, words.user, words.password_file, words.where)};
  if (contains(text, "authentication is not enabled"))
    return {Kind::refused,
            fmt::format("etcd at {} has no users: leave out {}{}, or type etcdctl auth enable",
                        member, words.user, words.where)};
  if (code == kPermissionDenied)
    return {Kind::refused,
            fmt::format("the user may not do that in etcd at {}: give a role of it the prefix "
                        "(etcdctl role grant-permission ROLE --prefix=true readwrite PREFIX/)",
                        member)};
  if (code == kUnauthenticated || contains(text, "user name is empty") ||
      contains(text, "auth store is old"))
    return {Kind::needs_user,
            fmt::format("etcd at {} asks for a user: name one with {}=NAME and {}=FILE{}", member,
                        words.user, words.password_file, words.where)};
  if (contains(text, "revision has been compacted")) return {Kind::compacted, reason};
  if (code == kResourceExhausted && contains(text, "larger than max"))
    return {Kind::too_large, reason};
  const bool is_busy = code == kResourceExhausted;  // too many requests
  if (is_busy || code == kUnavailable || code == kDeadlineExceeded || code == kOutOfRange)
    return {Kind::unreachable, reason};
  return {Kind::refused, reason};
}

}  // namespace

std::string etcd_range_body(const EtcdQuery& query) {
  std::string body = "{";
  append_keys(body, query.key, query.end);
  body += ',';
  append_number(body, "limit", query.limit);
  if (query.revision != 0) {
    body += ',';
    append_number(body, "revision", query.revision);
  }
  return body + '}';
}

std::string etcd_txn_body(const EtcdTxn& txn) {
  std::string body = "{";
  append_list(body, "compare", txn.compares, append_compare);
  body += ',';
  append_list(body, "success", txn.changes, append_change);
  body += ',';
  append_list(body, "failure", txn.read_otherwise, [](std::string& out, const std::string& key) {
    out += "{\"request_range\":{";
    append_bytes(out, "key", key);
    out += "}}";
  });
  return body + '}';
}

std::string etcd_grant_body(std::chrono::seconds ttl) {
  return fmt::format("{{\"TTL\":\"{}\"}}", ttl.count());
}

std::string etcd_lease_body(EtcdLease lease) { return fmt::format("{{\"ID\":\"{}\"}}", lease); }

std::string etcd_compact_body(EtcdRevision revision) {
  return fmt::format("{{\"revision\":\"{}\"}}", revision);
}

std::string etcd_login_body(const std::string& user, const std::string& password) {
  std::string body = "{";
  append_text(body, "name", user);
  body += ',';
  append_text(body, "password", password);
  return body + '}';
}

EtcdResult<EtcdPage> read_etcd_page(std::string_view body) {
  const auto document = object_in(body);
  if (!document) return not_understood();
  const auto revision = revision_of(document->root());
  auto keys = keys_of(document->root());
  const auto more = flag_of(document->root(), "more");
  if (!revision || !keys || !more || (*more && keys->empty())) return not_understood();
  return EtcdPage{*revision, std::move(*keys), *more};
}

EtcdResult<EtcdTxnAnswer> read_etcd_txn(std::string_view body, std::size_t reads) {
  const auto document = object_in(body);
  if (!document) return not_understood();
  const auto revision = revision_of(document->root());
  const auto succeeded = flag_of(document->root(), "succeeded");
  if (!revision || !succeeded) return not_understood();
  EtcdTxnAnswer answer{*revision, *succeeded, {}};
  if (!*succeeded && !read_responses(document->root(), reads, answer.read)) return not_understood();
  return answer;
}

EtcdResult<EtcdGrant> read_etcd_grant(std::string_view body) {
  const auto document = object_in(body);
  if (!document) return not_understood();
  const auto lease = number_of(document->root(), "ID");
  const auto ttl = count_of(document->root(), "TTL");
  if (!lease || *lease == 0 || !ttl || *ttl == 0) return not_understood();
  return EtcdGrant{*lease, std::chrono::seconds(*ttl)};
}

EtcdResult<std::chrono::seconds> read_etcd_keep_alive(std::string_view body) {
  const auto document = object_in(body);
  if (!document) return not_understood();
  // A stream of one object.
  const auto result = document->root().member("result");
  if (!result || !result->is_object()) return not_understood();
  const auto ttl = number_of(*result, "TTL");
  if (!ttl) return not_understood();
  return std::chrono::seconds(std::max<std::int64_t>(*ttl, 0));
}

EtcdResult<std::string> read_etcd_token(std::string_view body) {
  const auto document = object_in(body);
  const auto token = document ? document->root().member("token") : std::nullopt;
  const auto text = token ? token->text() : std::nullopt;
  const auto is_visible = [](char c) { return c > ' ' && c <= '~'; };
  if (!text || text->empty() || text->size() > kTokenBytesMax ||
      !std::all_of(text->begin(), text->end(), is_visible))
    return not_understood();
  return std::string(*text);
}

EtcdFault etcd_fault_of(unsigned status, std::string_view body, std::string_view member,
                        const EtcdWords& words) {
  using Kind = EtcdFault::Kind;
  const auto document = object_in(body);
  const auto code = document ? number_of(document->root(), "code") : std::nullopt;
  if (document && code && *code != 0) {
    const auto message = document->root().member("message");
    const auto error = document->root().member("error");
    const auto text = message ? message->text() : error ? error->text() : std::nullopt;
    return fault_of_code(*code, text.value_or("an error without a text"), member, words);
  }
  if (status == 404)
    return {
        Kind::too_old,
        fmt::format("{} has no /v3 (HTTP status 404): etcd 3.4 or newer is needed, with its JSON "
                    "gateway (--enable-grpc-gateway)",
                    member)};
  if (contains(body, "HTTPS server"))
    return {Kind::needs_user, fmt::format("etcd at {} asks for TLS: {}", member, words.use_tls)};
  return {status >= 500 ? Kind::unreachable : Kind::refused,
          fmt::format("{} answers with HTTP status {}, as no etcd does", member, status)};
}

bool is_of_member(const EtcdFault& fault) {
  return fault.kind == EtcdFault::Kind::unreachable || fault.kind == EtcdFault::Kind::not_trusted;
}

}  // namespace ddprun::rdzv
