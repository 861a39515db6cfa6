// The model's loss once more, written from the formulas in double precision with plain loops and no shared code: the
// oracle of the real one. Gradients come from it by finite differences.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <numbers>
#include <string>
#include <vector>

namespace pipefill::slow {

using Vector = std::vector<double>;
using Parameters = std::map<std::string, Vector>;

struct Shape {
  int layers, channels, heads, context, vocab;
  bool tied;
};

inline Vector norm(const Vector& x, const Vector& gamma, const Vector& beta) {
  double mean = 0, variance = 0;
  for (double v : x) mean += v / static_cast<double>(x.size());
  for (double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
  Vector y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * gamma[i] + beta[i];
  return y;
}

inline Vector linear(const Vector& x, const Vector& weight, const Vector& bias) {
  Vector y = bias;
  for (std::size_t o = 0; o < y.size(); ++o)
    for (std::size_t i = 0; i < x.size(); ++i) y[o] += weight[o * x.size() + i] * x[i];
  return y;
}

inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

/// Attention of all positions of one sequence; qkv[t] is (3C).
inline std::vector<Vector> attention(const std::vector<Vector>& qkv, std::size_t C, std::size_t H) {
  const std::size_t D = C / H;
  std::vector<Vector> out(qkv.size(), Vector(C, 0));
  for (std::size_t t = 0; t < qkv.size(); ++t) {
    for (std::size_t h = 0; h < H; ++h) {
      Vector weight(t + 1);
      double sum = 0;
      for (std::size_t s = 0; s <= t; ++s) {
        double score = 0;
        for (std::size_t d = 0; d < D; ++d) score += qkv[t][h * D + d] * qkv[s][C + h * D + d];
        sum += weight[s] = std::exp(score / std::sqrt(static_cast<double>(D)));
      }
      for (std::size_t s = 0; s <= t; ++s)
        for (std::size_t d = 0; d < D; ++d) out[t][h * D + d] += weight[s] / sum * qkv[s][2 * C + h * D + d];
    }
  }
  return out;
}

/// Sum of the token losses of one sequence of `context` tokens.
inline double sequence_loss(const Shape& shape, const Parameters& p, const std::int32_t* inputs,
                            const std::int32_t* targets) {
  const auto C = static_cast<std::size_t>(shape.channels), T = static_cast<std::size_t>(shape.context);
  const auto V = static_cast<std::size_t>(shape.vocab);
  const Vector &tokens = p.at("token_embedding.weight"), &positions = p.at("position_embedding.weight");
  std::vector<Vector> x(T, Vector(C));
  for (std::size_t t = 0; t < T; ++t)
    for (std::size_t c = 0; c < C; ++c)
      x[t][c] = tokens[static_cast<std::size_t>(inputs[t]) * C + c] + positions[t * C + c];
  const auto add = [&](std::size_t t, const Vector& y) {
    for (std::size_t c = 0; c < C; ++c) x[t][c] += y[c];
  };
  for (int l = 0; l < shape.layers; ++l) {
    const auto w = [&](const std::string& name) -> const Vector& {
      return p.at("block." + std::to_string(l) + "." + name);
    };
    std::vector<Vector> qkv;
    for (const Vector& row : x)
      qkv.push_back(linear(norm(row, w("attention_norm.weight"), w("attention_norm.bias")), w("attention.qkv.weight"),
                           w("attention.qkv.bias")));
    const std::vector<Vector> mixed = attention(qkv, C, static_cast<std::size_t>(shape.heads));
    for (std::size_t t = 0; t < T; ++t) {
      add(t, linear(mixed[t], w("attention.projection.weight"), w("attention.projection.bias")));
      Vector wide =
          linear(norm(x[t], w("mlp_norm.weight"), w("mlp_norm.bias")), w("mlp.expand.weight"), w("mlp.expand.bias"));
      for (double& v : wide) v = gelu(v);
      add(t, linear(wide, w("mlp.projection.weight"), w("mlp.projection.bias")));
    }
  }
  const Vector& head = shape.tied ? tokens : p.at("head.weight");
  double loss = 0;
  for (std::size_t t = 0; t < T; ++t) {
    const Vector logits = linear(norm(x[t], p.at("final_norm.weight"), p.at("final_norm.bias")), head, Vector(V, 0));
    double sum = 0;
    for (double logit : logits) sum += std::exp(logit);
    loss += std::log(sum) - logits[static_cast<std::size_t>(targets[t])];
  }
  return loss;
}

}  // namespace pipefill::slow
