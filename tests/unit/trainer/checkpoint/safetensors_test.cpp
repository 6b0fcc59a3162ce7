// The safetensors format: what is written, and that no damaged table gets through.
#include "trainer/checkpoint/safetensors.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string_view>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

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
    CHECK_THROWS_WITH(parse(whole.substr(0, size)),
                      Contains("m.safetensors: not a safetensors file, or not a whole"));
  }
}

TEST_CASE("a header over the format's limit is refused before it is looked at") {
  std::string bytes(64, '\0');
  bytes[4] = 1;  // 2^32
  CHECK_THROWS_WITH(parse(bytes), Contains("a header of 4294967296 bytes"));
}

TEST_CASE("files that are often given in place of a safetensors file are named with the remedy") {
  using namespace std::string_literals;
  const auto refused = [](const std::string& bytes, const std::string& what) {
    CHECK_THROWS_WITH(parse(bytes + std::string(2000, 'x')),
                      Contains("m.safetensors: not a safetensors file, but " + what));
  };
  refused("version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer");
  const std::string remedy = R"('import sys, torch; from safetensors.torch import save_file; )";
  refused("PK\x03\x04\0\0\x08\x08\0\0"s, "a zip archive, as torch.save writes it: convert it: ");
  refused("PK\x03\x04\x14\0\0\0\0\0"s, "a zip archive");
  refused("\x80\x02\x8a\nl\xfc\x9c\x46"s, "a pickle, as older versions of torch.save write it");
  CHECK_THROWS_WITH(parse("\x80\x04\x95\1\2\3\4\5"s), Contains(remedy));
  CHECK_THROWS_WITH(parse("\x80\x04\x95\1\2\3\4\5"s),
                    EndsWith(" m.safetensors m.converted.safetensors"));
  const std::string pickle = "\x80\x04\x95\1\2\3\4\5"s;
  CHECK_THAT(other_weights_text(std::as_bytes(std::span(pickle)), "a b/w.pt"),
             Contains("if torch.is_tensor(v)}, sys.argv[2])' ") &&
                 EndsWith(" 'a b/w.pt' 'a b/w.safetensors'"));
  refused("<!DOCTYPE html>", "a page of HTML");
  refused("\n\n  <html>", "a page of HTML");
  refused("404: Not Found", "a text");
  refused("\x89HDF\r\n\x1a\n", "HDF5");
  // A header of 640 bytes whose file was cut.
  CHECK_THROWS_WITH(parse("\x80\x02\0\0\0\0\0\0{\"a\""s), Contains("cut short within the header"));
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

TEST_CASE("a name, a field or a key that is there twice is refused") {
  const std::string row = R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const std::string empty = R"({"dtype":"U8","shape":[0],"data_offsets":[4,4]})";
  CHECK_THROWS_WITH(
      parse(file_of(R"({"a":)" + row + R"(,"b":)" + empty + R"(,"a":)" + empty + "}", 4)),
      Contains("a is there twice"));
  CHECK_THROWS_WITH(
      parse(file_of(R"({"a":{"dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4]}})", 4)),
      Contains("a: shape is there twice"));
  CHECK_THROWS_WITH(parse(file_of(R"({"__metadata__":{"k":"1","k":"2"}})", 0)),
                    Contains("metadata k is there twice"));
  CHECK_THROWS_WITH(parse(file_of(R"({"__metadata__":{},"__metadata__":{}})", 0)),
                    Contains("__metadata__ is there twice"));
}

TEST_CASE("a row has three fields and no other, and at most 64 sides") {
  const auto row = [](const std::string& fields) { return file_of("{\"a\":{" + fields + "}}", 4); };
  const std::string good = R"("dtype":"U8","shape":[4],"data_offsets":[0,4])";
  CHECK(parse(row(good)).tensors.size() == 1);
  CHECK_THROWS_WITH(parse(row(good + R"(,"extra":1)")), Contains("a: unknown field extra"));
  CHECK_THROWS_WITH(parse(row(R"("dtype":"U8","shape":[4])")), Contains("lacks dtype"));
  CHECK_THROWS_WITH(parse(row(R"("dtype":"U8","shape":[4],"data_offsets":[0])")),
                    Contains("lacks dtype, shape or data_offsets"));
  CHECK_THROWS_WITH(parse(row(R"("dtype":"U8","shape":[4],"data_offsets":[0,4,4])")),
                    Contains("more than 2 numbers in data_offsets"));
  CHECK_THROWS_WITH(parse(row(R"("dtype":["U8"],"shape":[4],"data_offsets":[0,4])")),
                    Contains("lacks dtype"));
  CHECK_THROWS_WITH(parse(row(R"("dtype":"U8","shape":[[4]],"data_offsets":[0,4])")),
                    Contains("not a number"));
  const auto of_rank = [&](int rank) {
    std::string ones = "4";
    for (int i = 1; i < rank; ++i) ones += ",1";
    return row(R"("dtype":"U8","shape":[)" + ones + R"(],"data_offsets":[0,4])");
  };
  CHECK(parse(of_rank(64)).tensors[0].shape.size() == 64);
  CHECK_THROWS_WITH(parse(of_rank(65)), Contains("more than 64 numbers in shape"));
}

TEST_CASE("a header of a hundred thousand names is read in one go") {
  std::string json = "{";
  for (int i = 0; i < 100'000; ++i) {
    json += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) +
            R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  CHECK(parse(file_of(json + "}", 0)).tensors.size() == 100'000);
}

TEST_CASE("a message shows at most the beginning of a name, and no control characters") {
  const std::string name = "\\u001b[31m" + std::string(100'000, 'x');
  try {
    parse(file_of("{\"" + name + "\":7}", 0));
    FAIL("not refused");
  } catch (const DataError& error) {
    const std::string text = error.what();
    CHECK(text.size() < 300);
    CHECK_THAT(text, Contains("\\x1b[31mxxx") && Contains("xxx..."));
  }
}

TEST_CASE("nesting without end does not follow the bytes down the stack") {
  CHECK_THROWS_AS(parse(file_of(std::string(200'000, '['), 0)), DataError);
  CHECK_THROWS_AS(
      parse(file_of(R"({"a":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0)),
      DataError);
}

std::vector<float> floats_of(const std::string& dtype, const std::vector<std::uint16_t>& words) {
  std::vector<float> values(words.size());
  to_floats(dtype, std::as_bytes(std::span(words)), values);
  return values;
}

TEST_CASE("every half becomes exactly its float") {
  std::vector<std::uint16_t> words;
  for (std::uint32_t word = 0; word <= 0xffff; ++word) {
    words.push_back(static_cast<std::uint16_t>(word));
  }
  const std::vector<float> values = floats_of("F16", words);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const int exponent = words[i] >> 10 & 31;
    const int fraction = words[i] & 1023;
    double expected =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) {
      expected = fraction == 0 ? std::numeric_limits<double>::infinity()
                               : std::numeric_limits<double>::quiet_NaN();
    }
    const bool same = std::isnan(expected) ? std::isnan(values[i])
                                           : std::abs(static_cast<double>(values[i])) == expected;
    if (!same || std::signbit(values[i]) != (words[i] >= 0x8000)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("halves at the edges are the values that IEEE gives them") {
  const std::vector<float> values =
      floats_of("F16", {0x0000, 0x8000, 0x0001, 0x03ff, 0x0400, 0x3c00, 0x7bff, 0x7c00, 0xfc00});
  CHECK(values[0] == 0.0F);
  CHECK(std::signbit(values[1]));
  CHECK(values[2] == 0x1p-24F);
  CHECK(values[3] == 0x3ffp-24F);
  CHECK(values[4] == 0x1p-14F);
  CHECK(values[5] == 1.0F);
  CHECK(values[6] == 65504.0F);
  CHECK(values[7] == std::numeric_limits<float>::infinity());
  CHECK(values[8] == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(floats_of("F16", {0x7e01})[0]));
}

TEST_CASE("a bfloat16 is the upper half of its float") {
  const std::vector<std::uint16_t> words{0x0000, 0x8000, 0x0001, 0x007f, 0x0080,
                                         0x3f80, 0x7f7f, 0x7f80, 0xff80, 0x7fc1};
  const std::vector<float> values = floats_of("BF16", words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    CHECK(std::bit_cast<std::uint32_t>(values[i]) == std::uint32_t{words[i]} << 16);
  }
}

TEST_CASE("floats stay as they are, bit by bit, and other types do not convert") {
  const std::vector<std::uint32_t> words{0, 0x80000000U, 1, 0x7f800000U, 0x7fc00001U, 0x3f800000U};
  std::vector<float> values(words.size());
  to_floats("F32", std::as_bytes(std::span(words)), values);
  for (std::size_t i = 0; i < words.size(); ++i) {
    CHECK(std::bit_cast<std::uint32_t>(values[i]) == words[i]);
  }
  for (const char* dtype : {"F32", "F16", "BF16"}) CHECK(converts_to_floats(dtype));
  for (const char* dtype : {"F64", "I64", "I32", "U8", "BOOL", "F8_E4M3", "f32", ""}) {
    CHECK_FALSE(converts_to_floats(dtype));
  }
}

}  // namespace
}  // namespace ddprun::trainer
