// Texts as bytes, tokens as numbers.
#include "fill_jobs/prompts.hpp"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "base/error.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

constexpr std::int64_t kLargestFile = 1 << 28;

std::vector<std::int32_t> bytes_of(const std::string& text) {
  std::vector<std::int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

std::vector<std::int32_t> numbers_in(const std::string& text) {
  std::vector<std::int32_t> tokens;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::int32_t token = 0;
    const char* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, token);
    if (error != std::errc{} || stop != end || token < 0)
      throw DeckError(fmt::format("with.prompt_tokens has '{}'; it needs texts of numbers, \"17 4 200\" say", word));
    tokens.push_back(token);
  }
  return tokens;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(read_file(path, kLargestFile));
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

}  // namespace

std::vector<Prompt> read_prompts(JobParameters& parameters, int vocab) {
  std::vector<std::string> texts = parameters.list("prompts");
  const auto file = parameters.text("prompt_file");
  const std::vector<std::string> numbers = parameters.list("prompt_tokens");
  if ((texts.empty() ? 0 : 1) + (file ? 1 : 0) + (numbers.empty() ? 0 : 1) != 1)
    throw DeckError("a generate job needs exactly one of with.prompts, with.prompt_file and with.prompt_tokens");
  if (file) texts = lines_of(parameters.path(*file));
  std::vector<Prompt> prompts;
  const auto add = [&](std::vector<std::int32_t> tokens) {
    const auto index = static_cast<std::int64_t>(prompts.size());
    if (tokens.empty())
      throw DeckError(fmt::format("prompt {} is empty; the model needs a token to begin with", index));
    for (const std::int32_t token : tokens)
      if (token >= vocab)
        throw DeckError(fmt::format("prompt {} has the token {}; the model knows those below {}", index, token, vocab));
    prompts.push_back({index, std::move(tokens)});
  };
  for (const std::string& text : texts) add(bytes_of(text));
  for (const std::string& text : numbers) add(numbers_in(text));
  if (prompts.empty()) throw DeckError(fmt::format("with.prompt_file {} has no prompt", *file));
  return prompts;
}

}  // namespace pipefill
