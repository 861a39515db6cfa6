// Shared by the tests of src/data: a directory that goes away, files of given bytes, and what an error says.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/temporary_directory.hpp"
#include "data/token_data.hpp"

namespace pipefill::test {

inline const std::string kFormats = std::string(PIPEFILL_SOURCE_DIR) + "/tests/data/formats/";

class DataFiles : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_ / name; }

  /// Writes the values one after another, little endian, and returns the path.
  template <class T>
  std::string write(const std::string& name, const std::vector<T>& values, const std::string& header = "") const {
    std::ofstream file(path(name), std::ios::binary);
    file << header;
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
    return path(name);
  }

  /// The bytes 0, 1, 2, ... as a text of `count` tokens.
  std::string write_ramp(const std::string& name, int count) const {
    std::vector<std::uint8_t> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i);
    return write(name, values);
  }

  pipefill::TemporaryDirectory directory_;
};

/// The bytes of plain values.
template <class... T>
std::string bytes_of(T... values) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&values), sizeof(T)), ...);
  return bytes;
}

inline std::vector<std::int32_t> training_sample(const TokenData& data, std::int64_t index) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(data.context() + 1));
  data.read_training(index, tokens);
  return tokens;
}

inline std::vector<std::int32_t> validation_sample(const TokenData& data, std::int64_t index) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(data.context() + 1));
  data.read_validation(index, tokens);
  return tokens;
}

/// Runs `action`, which must throw an Error with `code` whose text contains every one of `parts`.
template <class Action>
void expect_error(ExitCode code, const std::vector<std::string>& parts, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "no error; expected one with " << (parts.empty() ? "any text" : parts.front());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << "\nlacks: " << part;
  }
}

inline DataDescription describe(TokenFormat format, std::vector<std::string> files, double validation_fraction = 0) {
  return {.format = format, .files = std::move(files), .validation_fraction = validation_fraction};
}

}  // namespace pipefill::test
