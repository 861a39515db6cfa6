// Writes and parses the text form of instructions and schedules.
#include "schedule/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/error.hpp"

namespace pipefill {
namespace {

constexpr std::array<std::pair<BubbleClass, std::string_view>, 5> kBubbleClasses{{
    {BubbleClass::warm_up, "warm_up"},
    {BubbleClass::steady, "steady"},
    {BubbleClass::cool_down, "cool_down"},
    {BubbleClass::collective, "collective"},
    {BubbleClass::step_boundary, "step_boundary"},
}};

/// Reads from the front of a text; every function returns false or nothing, and reads nothing, where it does not fit.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool literal(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  std::optional<int> number() {
    int value = 0;
    if (rest_.empty() || rest_.front() == '-') return std::nullopt;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{}) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

template <class Compute>
std::optional<Instruction> parse_compute(Reader& reader, int chunk) {
  const auto microbatch = reader.number();
  if (!microbatch) return std::nullopt;
  return Compute{ModelChunkId{chunk}, MicrobatchId{*microbatch}};
}

template <class Message>
std::optional<Instruction> parse_message(Reader& reader, int chunk, std::string_view arrow) {
  const auto microbatch = reader.number();
  if (!microbatch || !reader.literal(arrow)) return std::nullopt;
  const auto peer = reader.number();
  if (!peer) return std::nullopt;
  return Message{ModelChunkId{chunk}, MicrobatchId{*microbatch}, StageId{*peer}};
}

std::optional<Instruction> parse_bubble(Reader& reader) {
  for (const auto& [why, name] : kBubbleClasses) {
    if (reader.literal(name) && reader.literal(")")) return Bubble{why};
  }
  return std::nullopt;
}

std::optional<Instruction> parse_front(Reader& reader) {
  if (reader.literal("STEP")) return OptimizerStep{};
  if (reader.literal("BUBBLE(")) return parse_bubble(reader);
  const auto chunk = reader.number();
  if (!chunk) return std::nullopt;
  if (reader.literal("REDUCE_GRAD")) return ReduceGradients{ModelChunkId{*chunk}};
  if (reader.literal("SEND_F")) return parse_message<SendActivation>(reader, *chunk, ">");
  if (reader.literal("RECV_F")) return parse_message<RecvActivation>(reader, *chunk, "<");
  if (reader.literal("SEND_B")) return parse_message<SendGradient>(reader, *chunk, ">");
  if (reader.literal("RECV_B")) return parse_message<RecvGradient>(reader, *chunk, "<");
  if (reader.literal("F")) return parse_compute<Forward>(reader, *chunk);
  if (reader.literal("B")) return parse_compute<Backward>(reader, *chunk);
  if (reader.literal("I")) return parse_compute<BackwardInput>(reader, *chunk);
  if (reader.literal("W")) return parse_compute<BackwardWeight>(reader, *chunk);
  return std::nullopt;
}

/// The words of a schedule's text with their places, for errors that point at them.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  /// The next word of this line, empty at its end.
  std::string_view next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    word_ = at_;
    while (at_ < text_.size() && text_[at_] != ' ' && text_[at_] != '\n') ++at_;
    return text_.substr(word_, at_ - word_);
  }
  void expect(std::string_view word) {
    if (next() != word) fail(fmt::format("'{}'", word));
  }
  int number(std::string_view what) {
    Reader reader(next());
    const auto value = reader.number();
    if (!value || !reader.at_end()) fail(what);
    return *value;
  }
  void end_line() {
    if (!next().empty()) fail("the end of the line");
    if (at_ >= text_.size()) fail("a line end");
    ++at_;
  }
  bool at_end() const { return at_ == text_.size(); }

  [[noreturn]] void fail(std::string_view expected) const {
    const auto before = text_.substr(0, word_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const auto line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    const auto found = text_.substr(word_, at_ - word_);
    throw ScheduleError(fmt::format("schedule text, line {}, column {}: expected {}, found {}. Nothing was loaded.",
                                    line, word_ - line_start + 1, expected,
                                    found.empty() ? std::string("the end") : fmt::format("'{}'", found)));
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t word_ = 0;  ///< where the last word starts
};

}  // namespace

std::string_view to_text(BubbleClass why) {
  return std::find_if(kBubbleClasses.begin(), kBubbleClasses.end(), [&](auto& entry) { return entry.first == why; })
      ->second;
}

std::string to_text(const Instruction& instruction) {
  const auto compute = [](char kind, const auto& i) {
    return fmt::format("{}{}{}", i.chunk.value, kind, i.microbatch.value);
  };
  const auto message = [](const char* kind, char arrow, const auto& i) {
    return fmt::format("{}{}{}{}{}", i.chunk.value, kind, i.microbatch.value, arrow, i.peer.value);
  };
  return std::visit(Overloaded{
                        [&](const Forward& i) { return compute('F', i); },
                        [&](const Backward& i) { return compute('B', i); },
                        [&](const BackwardInput& i) { return compute('I', i); },
                        [&](const BackwardWeight& i) { return compute('W', i); },
                        [&](const SendActivation& i) { return message("SEND_F", '>', i); },
                        [&](const RecvActivation& i) { return message("RECV_F", '<', i); },
                        [&](const SendGradient& i) { return message("SEND_B", '>', i); },
                        [&](const RecvGradient& i) { return message("RECV_B", '<', i); },
                        [](const ReduceGradients& i) { return fmt::format("{}REDUCE_GRAD", i.chunk.value); },
                        [](const OptimizerStep&) { return std::string("STEP"); },
                        [](const Bubble& i) { return fmt::format("BUBBLE({})", to_text(i.why)); },
                    },
                    instruction);
}

std::optional<Instruction> parse_instruction(std::string_view text) {
  Reader reader(text);
  auto instruction = parse_front(reader);
  return reader.at_end() ? instruction : std::nullopt;
}

std::string to_text(const Schedule& schedule) {
  std::string text = fmt::format("schedule {} microbatches {}\nstage_of_chunk", schedule.name, schedule.microbatches);
  for (const StageId stage : schedule.stage_of_chunk) text += fmt::format(" {}", stage.value);
  text += '\n';
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    text += fmt::format("stage {}:", stage);
    for (const Instruction& instruction : schedule.programs[static_cast<std::size_t>(stage)]) {
      text += ' ' + to_text(instruction);
    }
    text += '\n';
  }
  return text;
}

Schedule parse_schedule(std::string_view text) {
  Words words(text);
  Schedule schedule;
  words.expect("schedule");
  schedule.name = words.next();
  if (schedule.name.empty()) words.fail("the schedule's name");
  words.expect("microbatches");
  schedule.microbatches = words.number("the number of microbatches");
  words.end_line();

  words.expect("stage_of_chunk");
  for (auto word = words.next(); !word.empty(); word = words.next()) {
    Reader reader(word);
    const auto stage = reader.number();
    if (!stage || !reader.at_end()) words.fail("the stage of a chunk");
    schedule.stage_of_chunk.push_back(StageId{*stage});
  }
  words.end_line();

  while (!words.at_end()) {
    words.expect("stage");
    words.expect(fmt::format("{}:", schedule.programs.size()));
    auto& program = schedule.programs.emplace_back();
    for (auto word = words.next(); !word.empty(); word = words.next()) {
      const auto instruction = parse_instruction(word);
      if (!instruction) words.fail("an instruction such as 0F3, 0SEND_F3>1, 0REDUCE_GRAD, STEP or BUBBLE(steady)");
      program.push_back(*instruction);
    }
    words.end_line();
  }
  return schedule;
}

}  // namespace pipefill
