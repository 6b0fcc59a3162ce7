// The safetensors format: what is written, and that no damaged table gets through.
#include "trainer/checkpoint/safetensors.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string_view>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

/// A file with this header text and so many bytes of data.
std::string file_of(const std::string& json, std::size_t data_bytes) {
  std::string bytes;
  for (std::size_t i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(json.size() >> (8 * i)));
  return bytes + json + std::string(data_bytes, '\1');
}

SafetensorsTable parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "m.safetensors");
}

TEST_CASE("a header written here is the format's worked example") {
  const std::vector<TensorSpec> tensors{{"a", {2, 2}}, {"b", {}}};
  const std::string header = safetensors_header(tensors, {{"k", "v"}});
  const std::string json =
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"F32","shape":[],"data_offsets":[16,20]}})";
  CHECK(header.substr(8, json.size()) == json);
  CHECK(header.size() % 8 == 0);
  CHECK(static_cast<unsigned char>(header[0]) == header.size() - 8);
}

TEST_CASE("a table is read back as it was written") {
  const std::vector<TensorSpec> tensors{{"a", {2, 2}}, {"b", {3}}};
  const std::string header = safetensors_header(tensors, {{"k", "v"}});
  const SafetensorsTable table = parse(header + std::string(28, 'x'));
  REQUIRE(table.tensors.size() == 2);
  CHECK(table.tensors[0].name == "a");
  CHECK(table.tensors[0].shape == std::vector<std::int64_t>{2, 2});
  CHECK(table.tensors[0].begin == header.size());
  CHECK(table.tensors[1].end == header.size() + 28);
  CHECK(table.metadata.at("k") == "v");
}

TEST_CASE("a file without tensors is whole") { CHECK(parse(file_of("{}", 0)).tensors.empty()); }

TEST_CASE("tensors may stand in the header in any order") {
  const SafetensorsTable table =
      parse(file_of(R"({"late":{"dtype":"U8","shape":[3],"data_offsets":[2,5]},)"
                    R"("early":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})",
                    5));
  CHECK(table.tensors[0].name == "early");
}

TEST_CASE("every cut of a file is reported with its name") {
  const std::string whole =
      safetensors_header(std::vector<TensorSpec>{{"a", {4}}}, {}) + std::string(16, 'x');
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_THROWS_WITH(parse(whole.substr(0, size)), Contains("m.safetensors: not a whole"));
  }
}

TEST_CASE("a header over the format's limit is refused before it is looked at") {
  std::string bytes(64, '\0');
  bytes[4] = 1;  // 2^32
  CHECK_THROWS_WITH(parse(bytes), Contains("a header of 4294967296 bytes"));
}

TEST_CASE("tables that lie are refused, each with its reason") {
  const auto row = [](const std::string& dtype, const std::string& shape,
                      const std::string& range) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + range +
           "}}";
  };
  CHECK_THROWS_WITH(parse(file_of("[1,2]", 0)), Contains("not a JSON object"));
  CHECK_THROWS_WITH(parse(file_of("{\"a\":", 0)), Contains("not a JSON object"));
  CHECK_THROWS_WITH(parse(file_of(R"({"a":7})", 0)), Contains("lacks dtype"));
  CHECK_THROWS_WITH(parse(file_of(row("F31", "[1]", "[0,4]"), 4)), Contains("unknown dtype F31"));
  CHECK_THROWS_WITH(parse(file_of(row("F32", "[2]", "[0,4]"), 4)),
                    Contains("larger than the file"));
  CHECK_THROWS_WITH(parse(file_of(row("F32", "[1]", "[0,8]"), 8)), Contains("its shape needs 4"));
  CHECK_THROWS_WITH(parse(file_of(row("F32", "[1]", "[4,0]"), 4)), Contains("lie outside"));
  CHECK_THROWS_WITH(parse(file_of(row("F32", "[1]", "[0,99]"), 4)), Contains("lie outside"));
  CHECK_THROWS_WITH(parse(file_of(row("F32", "[-1]", "[0,4]"), 4)), Contains("not a number"));
  CHECK_THROWS_WITH(parse(file_of(row("F32", "[1]", "[0.0,4]"), 4)), Contains("not a number"));
  CHECK_THROWS_WITH(parse(file_of(row("F32", "[4294967296,4294967296]", "[0,4]"), 4)),
                    Contains("larger than the file"));
  CHECK_THROWS_WITH(parse(file_of(R"({"__metadata__":{"k":1}})", 0)), Contains("is not text"));
  CHECK_THROWS_WITH(parse(file_of(R"({"__metadata__":3})", 0)), Contains("is not an object"));
}

TEST_CASE("ranges must neither overlap nor leave holes") {
  const auto two = [](const std::string& a, const std::string& b, std::size_t bytes) {
    return file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                       R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                   bytes);
  };
  CHECK(parse(two("[0,4]", "[4,8]", 8)).tensors.size() == 2);
  CHECK_THROWS_WITH(parse(two("[0,4]", "[2,6]", 6)), Contains("overlap"));
  CHECK_THROWS_WITH(parse(two("[0,4]", "[5,9]", 9)), Contains("holes"));
  CHECK_THROWS_WITH(parse(two("[1,5]", "[5,9]", 9)), Contains("starts at byte 1"));
  CHECK_THROWS_WITH(parse(two("[0,4]", "[4,8]", 12)), Contains("cover 8"));
}

TEST_CASE("a file with any bytes changed is read or refused, nothing else") {
  std::mt19937 random(7);
  const std::vector<TensorSpec> tensors{{"a", {2, 2}}, {"b", {3}}};
  const std::string whole = safetensors_header(tensors, {{"k", "v"}}) + std::string(28, 'x');
  for (int turn = 0; turn < 5000; ++turn) {
    std::string bytes = whole;
    for (unsigned change = 0; change < 1 + random() % 4; ++change) {
      // Mostly letters that JSON is made of: they get further into the parser.
      static constexpr std::string_view kLetters = "{}[]\",:0129-.ent";
      bytes[random() % bytes.size()] =
          random() % 4 == 0 ? static_cast<char>(random()) : kLetters[random() % kLetters.size()];
    }
    try {
      for (const TensorEntry& tensor : parse(bytes).tensors) CHECK(tensor.end <= bytes.size());
    } catch (const DataError&) {
    }
  }
}

TEST_CASE("nesting without end does not follow the bytes down the stack") {
  CHECK_THROWS_AS(parse(file_of(std::string(200'000, '['), 0)), DataError);
  CHECK_THROWS_AS(
      parse(file_of(R"({"a":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0)),
      DataError);
}

}  // namespace
}  // namespace ddprun::trainer
