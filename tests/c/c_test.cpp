#include "binade/c.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "binade/autograd/op.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/norm/softmax.h"
#include "io/temporary_folder.h"
#include "support/paths.h"
#include "support/values.h"

// The C interface against the C++ one, and every kind of misuse.
namespace binade {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

using Handle = std::unique_ptr<bnd_tensor, void (*)(bnd_tensor*)>;

Handle owned(bnd_tensor* tensor) { return {tensor, bnd_tensor_free}; }

Handle make(const std::vector<float>& values, std::vector<int64_t> shape) {
  const bnd_layout layout{shape.data(), static_cast<int>(shape.size()), BND_F32, {BND_CPU, 0}};
  bnd_tensor* tensor = nullptr;
  EXPECT_EQ(bnd_tensor_from_data(&layout, values.data(), values.size() * sizeof(float), &tensor),
            BND_OK)
      << bnd_last_error();
  return owned(tensor);
}

std::vector<float> values_of(const Handle& tensor) {
  std::vector<float> values(static_cast<size_t>(bnd_tensor_numel(tensor.get())));
  EXPECT_EQ(bnd_tensor_read(tensor.get(), values.data(), values.size() * sizeof(float)), BND_OK)
      << bnd_last_error();
  return values;
}

Handle run(const char* name, std::vector<const bnd_tensor*> inputs,
           std::vector<bnd_option> options = {}) {
  bnd_tensor* result = nullptr;
  EXPECT_EQ(bnd_op(name, inputs.data(), inputs.size(), options.data(), options.size(), &result),
            BND_OK)
      << bnd_last_error();
  return owned(result);
}

std::string refusal(const char* name, std::vector<const bnd_tensor*> inputs,
                    std::vector<bnd_option> options = {}) {
  bnd_tensor* result = nullptr;
  EXPECT_EQ(bnd_op(name, inputs.data(), inputs.size(), options.data(), options.size(), &result),
            BND_INVALID);
  EXPECT_EQ(result, nullptr);
  return bnd_last_error();
}

bnd_option integer(const char* name, int64_t value) {
  return {.name = name, .kind = BND_INT, .integer = value};
}

TEST(C, TensorsKeepValuesShapesAndTypes) {
  const Handle x = make({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(bnd_tensor_rank(x.get()), 2);
  EXPECT_EQ(bnd_tensor_size(x.get(), 1), 3);
  EXPECT_EQ(bnd_tensor_size(x.get(), 2), -1);
  EXPECT_EQ(bnd_tensor_dtype(x.get()), BND_F32);
  const Handle turned = run("transpose", {x.get()}, {integer("a", 0), integer("b", 1)});
  EXPECT_THAT(values_of(turned), ElementsAre(1, 4, 2, 5, 3, 6));
  const std::vector<float> other{9, 8, 7, 6, 5, 4};
  EXPECT_EQ(bnd_tensor_write(turned.get(), other.data(), 24), BND_OK);
  EXPECT_THAT(values_of(x), ElementsAre(9, 7, 5, 8, 6, 4)) << "the handles share their data";
}

TEST(C, TheExampleOfTheHeaderIsTheProgramThatIsTested) {
  const auto lines_of = [](const char* path) {
    std::ifstream file(test::source_dir() / path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  };
  std::vector<std::string> expected;
  for (const std::string& line : lines_of("tests/c/example.c"))
    expected.push_back(line.empty() ? " *" : " *   " + line);
  const std::vector<std::string> header = lines_of("src/binade/c.h");
  ASSERT_FALSE(expected.empty());
  EXPECT_FALSE(std::search(header.begin(), header.end(), expected.begin(), expected.end()) ==
               header.end());
}

TEST(C, SaysWhereMemoryIsShort) {
  const int64_t huge[] = {int64_t{1} << 30, int64_t{1} << 18};  // 1 PiB
  const bnd_layout layout{huge, 2, BND_F32, {BND_CPU, 0}};
  bnd_tensor* none = nullptr;
  EXPECT_EQ(bnd_tensor_randn(&layout, 1, &none), BND_MEMORY);
  EXPECT_EQ(none, nullptr);
  EXPECT_THAT(bnd_last_error(), AllOf(HasSubstr("memory: cpu: expected room for 11258999068426"),
                                      HasSubstr("none left")));
  const Handle x = make({1, 2}, {2, 1});
  const int64_t square[] = {int64_t{1} << 24, int64_t{1} << 24};
  const bnd_option option{.name = "shape", .kind = BND_INTS, .list = square, .count = 2};
  const Handle one = make({1}, {1, 1}), view = run("expand", {one.get()}, {option});
  bnd_tensor* copy = nullptr;
  const bnd_tensor* inputs[] = {view.get()};
  EXPECT_EQ(bnd_op("clone", inputs, 1, nullptr, 0, &copy), BND_MEMORY) << "in an op";
  EXPECT_EQ(copy, nullptr);
  EXPECT_THAT(values_of(x), ElementsAre(1, 2)) << "what there was goes on";
}

TEST(C, EveryOpOfTheListRunsOrSaysWhatItWants) {
  std::set<std::string> names;
  for (size_t i = 0; i < bnd_op_count(); ++i) {
    const std::string name = bnd_op_name(i), signature = bnd_op_signature(i);
    EXPECT_TRUE(names.insert(name).second) << name << " is listed twice";
    EXPECT_EQ(signature.rfind(name + "(", 0), 0u) << signature;
    EXPECT_EQ(signature.back(), ')') << signature;
    const std::vector<const bnd_tensor*> too_many(9, nullptr);
    EXPECT_THAT(refusal(name.c_str(), too_many), AnyOf(HasSubstr("NULL"), HasSubstr("9 inputs")));
    if (signature.find("(...") == std::string::npos) {
      EXPECT_THAT(refusal(name.c_str(), {}), HasSubstr("0 inputs"));
    }
  }
  EXPECT_GT(names.size(), 70u);
  EXPECT_EQ(bnd_op_name(bnd_op_count()), nullptr);
}

TEST(C, EveryOpOfTheLibraryIsListed) {
  // Named otherwise, with two results, or with functions as arguments.
  const std::set<std::string_view> others{"scaled_dot_product_attention",
                                          "lstm_cell",
                                          "residual_layer_norm",
                                          "residual_rms_norm",
                                          "checkpoint",
                                          "custom"};
  std::set<std::string_view> listed;
  for (size_t i = 0; i < bnd_op_count(); ++i) listed.insert(bnd_op_name(i));
  for (const OpInfo& op : all_ops())
    EXPECT_NE(listed.count(op.name), others.count(op.name)) << op.name;
}

TEST(C, OpsAreThoseOfTheLibrary) {
  const std::vector<float> numbers{0.5, -1, 2, 3, 0.25, -4};
  const Handle x = make(numbers, {2, 3}), w = make({1, 2, 3, -1, 0, 1}, {2, 3});
  const Tensor tx = tensor(std::vector<double>(numbers.begin(), numbers.end()), {2, 3});
  const Tensor tw = tensor({1, 2, 3, -1, 0, 1}, {2, 3});
  EXPECT_THAT(values_of(run("linear", {x.get(), w.get()})),
              ElementsAreArray(test::read(linear(tx, tw))));
  EXPECT_THAT(values_of(run("softmax", {x.get()}, {integer("axis", 0)})),
              ElementsAreArray(test::read(softmax(tx, 0))));
  EXPECT_THAT(values_of(run("sum", {x.get()}, {integer("axes", 1)})), ElementsAre(1.5, -0.75));
  EXPECT_THAT(values_of(run("huber_loss", {x.get(), w.get()},
                            {{.name = "delta", .kind = BND_FLOAT, .number = 2}})),
              ElementsAreArray(test::read(huber_loss(tx, tw, Reduce::mean, 2))));
  EXPECT_THAT(values_of(run("norm", {x.get()}, {integer("p", 1)})), ElementsAre(10.75));
  const auto gelu_of = [&](const char* form) {
    const bnd_option option{.name = "form", .kind = BND_TEXT, .text = form};
    return values_of(
        run("gelu", {x.get()},
            form == nullptr ? std::vector<bnd_option>() : std::vector<bnd_option>{option}));
  };
  EXPECT_THAT(gelu_of(nullptr), ElementsAreArray(test::read(gelu(tx, Gelu::erf))));
  EXPECT_THAT(gelu_of("erf"), ElementsAreArray(test::read(gelu(tx, Gelu::erf))));
  EXPECT_THAT(gelu_of("tanh"), ElementsAreArray(test::read(gelu(tx, Gelu::tanh))));
  // As many inputs as there are.
  EXPECT_EQ(bnd_tensor_size(run("cat", {x.get(), w.get(), x.get()}, {integer("axis", 0)}).get(), 0),
            6);
  // A flag that is not given is false, and 0 is, too.
  const auto rank_of_sum = [&](std::vector<bnd_option> options) {
    options.push_back(integer("axes", 1));
    return bnd_tensor_rank(run("sum", {x.get()}, options).get());
  };
  EXPECT_EQ(rank_of_sum({}), 1);
  EXPECT_EQ(rank_of_sum({integer("keep", 0)}), 1);
  EXPECT_EQ(rank_of_sum({integer("keep", 1)}), 2);
}

TEST(C, MisuseIsNamed) {
  const Handle x = make({1, 2}, {2});
  EXPECT_THAT(refusal("sofmax", {x.get()}), HasSubstr("sofmax"));
  EXPECT_THAT(refusal("softmax", {x.get()}, {integer("axe", 0)}), HasSubstr("axe"));
  EXPECT_THAT(refusal("softmax", {x.get()}, {{.name = "axis", .kind = BND_TEXT, .text = "0"}}),
              HasSubstr("expected an integer"));
  EXPECT_THAT(refusal("cumsum", {x.get()}), HasSubstr("option axis"));
  EXPECT_THAT(refusal("add", {x.get()}), HasSubstr("add(a, b)"));
  EXPECT_THAT(refusal("add", {x.get(), nullptr}), HasSubstr("NULL"));
  EXPECT_EQ(bnd_tensor_read(x.get(), nullptr, 8), BND_INVALID);
  float room[3];
  EXPECT_EQ(bnd_tensor_read(x.get(), room, sizeof(room)), BND_INVALID);
  EXPECT_THAT(bnd_last_error(), HasSubstr("expected 8"));
  EXPECT_EQ(bnd_tensor_item(x.get(), nullptr), BND_INVALID);
  EXPECT_EQ(bnd_tensor_backward(nullptr, nullptr), BND_INVALID);
  bnd_tensor_free(nullptr);
}

TEST(C, GradientsComeBack) {
  const Handle x = make({1, 2, 3}, {3});
  ASSERT_EQ(bnd_tensor_set_requires_grad(x.get(), 1), BND_OK);
  bnd_tensor* none = nullptr;
  ASSERT_EQ(bnd_tensor_grad(x.get(), &none), BND_OK);
  EXPECT_EQ(none, nullptr);
  const Handle y = run("sum", {run("square", {x.get()}).get()});
  ASSERT_EQ(bnd_tensor_backward(y.get(), nullptr), BND_OK) << bnd_last_error();
  bnd_tensor* grad = nullptr;
  ASSERT_EQ(bnd_tensor_grad(x.get(), &grad), BND_OK);
  EXPECT_THAT(values_of(owned(grad)), ElementsAre(2, 4, 6));
}

TEST(C, TensorsLeaveTheGraphAndShareTheirData) {
  const Handle x = make({1, 2, 3}, {3});
  EXPECT_EQ(bnd_tensor_requires_grad(x.get()), 0);
  ASSERT_EQ(bnd_tensor_set_requires_grad(x.get(), 1), BND_OK);
  EXPECT_EQ(bnd_tensor_requires_grad(x.get()), 1);
  bnd_tensor* detached = nullptr;
  ASSERT_EQ(bnd_tensor_detach(x.get(), &detached), BND_OK);
  const Handle alone = owned(detached);
  EXPECT_EQ(bnd_tensor_requires_grad(alone.get()), 0);
  DLManagedTensorVersioned* managed = nullptr;
  ASSERT_EQ(bnd_tensor_to_dlpack(alone.get(), &managed), BND_OK) << bnd_last_error();
  ASSERT_NE(managed, nullptr);
  bnd_tensor* back = nullptr;
  ASSERT_EQ(bnd_tensor_from_dlpack(managed, &back), BND_OK) << bnd_last_error();
  const Handle received = owned(back);
  const std::vector<float> other{7, 8, 9};
  ASSERT_EQ(bnd_tensor_write(received.get(), other.data(), 12), BND_OK) << bnd_last_error();
  EXPECT_THAT(values_of(x), ElementsAre(7, 8, 9));
  // A seed multiplies, gradients add up, and zeroing them ends that.
  const Handle seed = make({2, 3, 4}, {3});
  for (const float times : {1.0F, 2.0F}) {
    ASSERT_EQ(bnd_tensor_backward(run("clone", {x.get()}).get(), seed.get()), BND_OK);
    bnd_tensor* grad = nullptr;
    ASSERT_EQ(bnd_tensor_grad(x.get(), &grad), BND_OK);
    EXPECT_THAT(values_of(owned(grad)), ElementsAre(2 * times, 3 * times, 4 * times));
  }
  ASSERT_EQ(bnd_tensor_zero_grad(x.get()), BND_OK);
  bnd_tensor* none = nullptr;
  ASSERT_EQ(bnd_tensor_grad(x.get(), &none), BND_OK);
  EXPECT_EQ(none, nullptr);
  ASSERT_EQ(bnd_tensor_set_requires_grad(x.get(), 0), BND_OK);
  EXPECT_EQ(bnd_tensor_requires_grad(x.get()), 0);
}

TEST(C, AutocastIsOfItsScope) {
  const Handle x = make({1, 2}, {1, 2}), w = make({3, 4}, {1, 2});
  bnd_autocast* guard = nullptr;
  ASSERT_EQ(bnd_autocast_begin(BND_BF16, 1, &guard), BND_OK);
  EXPECT_EQ(bnd_tensor_dtype(run("linear", {x.get(), w.get()}).get()), BND_BF16);
  bnd_autocast_end(guard);
  EXPECT_EQ(bnd_tensor_dtype(run("linear", {x.get(), w.get()}).get()), BND_F32);
  EXPECT_EQ(bnd_autocast_begin(BND_I64, 1, &guard), BND_INVALID);
}

TEST(C, OptimizersByName) {
  const Handle x = make({1, -2}, {2});
  ASSERT_EQ(bnd_tensor_set_requires_grad(x.get(), 1), BND_OK);
  const bnd_tensor* parameters[] = {x.get()};
  const bnd_option options[] = {{.name = "lr", .kind = BND_FLOAT, .number = 0.25},
                                {.name = "betas", .kind = BND_TEXT, .text = "0.5, 0.75"},
                                {.name = "moments", .kind = BND_TEXT, .text = "bf16"}};
  bnd_optimizer* optimizer = nullptr;
  ASSERT_EQ(bnd_optimizer_new("Lion", parameters, 1, options, 3, &optimizer), BND_OK)
      << bnd_last_error();
  ASSERT_EQ(bnd_tensor_backward(run("sum", {x.get()}).get(), nullptr), BND_OK);
  ASSERT_EQ(bnd_optimizer_step(optimizer), BND_OK);
  EXPECT_THAT(values_of(x), ElementsAre(0.75, -2.25));
  bnd_optimizer_free(optimizer);
  const bnd_option flag{.name = "amsgrad", .kind = BND_INT, .integer = 1};
  ASSERT_EQ(bnd_optimizer_new("Adam", parameters, 1, &flag, 1, &optimizer), BND_OK);
  bnd_optimizer_free(optimizer);
  EXPECT_EQ(bnd_optimizer_new("Lion", parameters, 1, &flag, 1, &optimizer), BND_INVALID);
  EXPECT_THAT(bnd_last_error(), HasSubstr("expected lr, betas, weight_decay and moments"));
  EXPECT_EQ(bnd_optimizer_new("Lions", parameters, 1, nullptr, 0, &optimizer), BND_INVALID);
  EXPECT_THAT(bnd_last_error(), HasSubstr("NAdam"));
  EXPECT_EQ(bnd_optimizer_new(nullptr, parameters, 1, nullptr, 0, &optimizer), BND_INVALID);
  EXPECT_EQ(bnd_optimizer_new("Lion", parameters, 1, nullptr, 1, &optimizer), BND_INVALID);
}

TEST(C, AnOverflowSkipsTheStepAndHalvesTheScale) {
  const Handle x = make({1}, {1});
  ASSERT_EQ(bnd_tensor_set_requires_grad(x.get(), 1), BND_OK);
  const bnd_tensor* parameters[] = {x.get()};
  const bnd_sgd_options options{.lr = 0.5, .momentum = 0, .weight_decay = 0};
  bnd_optimizer* optimizer = nullptr;
  bnd_scaler* scaler = nullptr;
  ASSERT_EQ(bnd_sgd_new(parameters, 1, &options, &optimizer), BND_OK);
  ASSERT_EQ(bnd_scaler_new(nullptr, &scaler), BND_OK);
  bnd_option huge{.name = "value", .kind = BND_FLOAT, .number = 3e38};
  bnd_tensor* scaled = nullptr;
  ASSERT_EQ(bnd_scaler_scale(scaler, run("mul_scalar", {x.get()}, {huge}).get(), &scaled), BND_OK);
  ASSERT_EQ(bnd_tensor_backward(owned(scaled).get(), nullptr), BND_OK) << bnd_last_error();
  int applied = -1;
  ASSERT_EQ(bnd_scaler_step(scaler, optimizer, &applied), BND_OK) << bnd_last_error();
  EXPECT_EQ(applied, 0);
  EXPECT_THAT(values_of(x), ElementsAre(1));
  ASSERT_EQ(bnd_scaler_update(scaler), BND_OK);
  double scale = 0;
  ASSERT_EQ(bnd_scaler_get_scale(scaler, &scale), BND_OK);
  EXPECT_EQ(scale, 32768);
  bnd_scaler_free(scaler);
  bnd_optimizer_free(optimizer);
}

TEST(C, StatesGoThroughFiles) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder / "x.safetensors").string();
  bnd_state *state = nullptr, *loaded = nullptr;
  ASSERT_EQ(bnd_state_new(&state), BND_OK);
  ASSERT_EQ(bnd_state_set(state, "b", make({7}, {1}).get()), BND_OK);
  ASSERT_EQ(bnd_state_set(state, "a", make({5, 6}, {2}).get()), BND_OK);
  ASSERT_EQ(bnd_state_write(state, path.c_str()), BND_OK) << bnd_last_error();
  ASSERT_EQ(bnd_state_read(path.c_str(), &loaded), BND_OK) << bnd_last_error();
  ASSERT_EQ(bnd_state_count(loaded), 2u);
  EXPECT_STREQ(bnd_state_name(loaded, 0), "a");
  EXPECT_STREQ(bnd_state_name(loaded, 1), "b");
  EXPECT_EQ(bnd_state_name(loaded, 2), nullptr);
  bnd_tensor* a = nullptr;
  ASSERT_EQ(bnd_state_get(loaded, "a", &a), BND_OK);
  EXPECT_THAT(values_of(owned(a)), ElementsAre(5, 6));
  EXPECT_EQ(bnd_state_get(loaded, "c", &a), BND_INVALID);
  EXPECT_EQ(bnd_state_read((folder / "none").string().c_str(), &loaded), BND_INVALID);
  bnd_state_free(state);
  bnd_state_free(loaded);
}

constexpr const char* tiny =
    "[model]\nmodel = \"gpt2\"\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 8\n"
    "[precision]\nprecision = \"fp32\"\n[train]\ndevice = \"cpu\"\nbatch = 2\nsteps = 5\n";

TEST(C, AModelOfSettingsTrainsByItsParameters) {
  bnd_model* model = nullptr;
  ASSERT_EQ(bnd_model_new(tiny, &model), BND_OK) << bnd_last_error();
  const int64_t shape[] = {1, 4};
  const int64_t ids[] = {1, 2, 3, 4}, next[] = {2, 3, 4, 5};
  const bnd_layout layout{shape, 2, BND_I64, {BND_CPU, 0}};
  bnd_tensor *tokens = nullptr, *targets = nullptr, *loss = nullptr, *logits = nullptr;
  ASSERT_EQ(bnd_tensor_from_data(&layout, ids, sizeof(ids), &tokens), BND_OK);
  ASSERT_EQ(bnd_tensor_from_data(&layout, next, sizeof(next), &targets), BND_OK);
  ASSERT_EQ(bnd_model_loss(model, tokens, targets, &loss), BND_OK) << bnd_last_error();
  ASSERT_EQ(bnd_model_logits(model, tokens, &logits), BND_OK) << bnd_last_error();
  EXPECT_EQ(bnd_tensor_size(logits, 2), 256);
  double value = 0;
  ASSERT_EQ(bnd_tensor_item(loss, &value), BND_OK);
  EXPECT_NEAR(value, 5.545, 0.5) << "the log of 256, as nothing is learned yet";
  EXPECT_GT(bnd_model_parameter_count(model), 10u);
  for (bnd_tensor* one : {tokens, targets, loss, logits}) bnd_tensor_free(one);
  bnd_model_free(model);
  EXPECT_EQ(bnd_model_new("[model]\nlayers = -1\n", &model), BND_INVALID);
  EXPECT_THAT(bnd_last_error(), HasSubstr("layers"));
}

TEST(C, TheTrainerReportsStepsAndStopsWhenAsked) {
  const testing::TemporaryFolder folder;
  const std::string toml =
      std::string(tiny) + "[run]\nout = \"" + (folder / "run").string() + "\"\nsample = 0\n";
  std::vector<int64_t> steps;
  const auto note = [](const bnd_step* step, void* context) {
    static_cast<std::vector<int64_t>*>(context)->push_back(step->step);
    return step->step == 3 ? 1 : 0;
  };
  ASSERT_EQ(bnd_train(toml.c_str(), note, &steps), BND_OK) << bnd_last_error();
  EXPECT_THAT(steps, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace binade
