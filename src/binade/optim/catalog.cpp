#include "binade/optim/catalog.h"

#include <algorithm>

#include "binade/base/error.h"
#include "binade/base/text.h"
#include "binade/optim/adafactor.h"
#include "binade/optim/adagrad.h"
#include "binade/optim/adam.h"
#include "binade/optim/lion.h"
#include "binade/optim/muon.h"
#include "binade/optim/nadam.h"
#include "binade/optim/rmsprop.h"
#include "binade/optim/sgd.h"

namespace binade::optim {
namespace {

template <class Options>
std::vector<std::string> options_of() {
  Options options;
  const NamedOptions none;
  OptionVisitor visitor("optimizer", none);
  visit_options(options, visitor);
  return visitor.names();
}

template <class Group>
std::vector<Group> groups_of(const char* optimizer, const std::vector<NamedGroup>& given) {
  std::vector<Group> groups;
  for (const NamedGroup& one : given) {
    Group group{one.parameters, {}};
    OptionVisitor visitor(optimizer, one.options);
    visit_options(group.options, visitor);
    visitor.finish();
    group.options.master = one.master;
    groups.push_back(std::move(group));
  }
  return groups;
}

template <class Class, class Group, Kind kind>
std::unique_ptr<Optimizer> make(const std::vector<NamedGroup>& groups) {
  return std::make_unique<Class>(groups_of<Group>(describe(kind).name, groups));
}

using enum StateTensor::Type;
using enum StateTensor::Size;

constexpr bool is_optional = true;
constexpr StateTensor sgd_state[] = {{"first", wide, elements, is_optional}};
constexpr StateTensor adam_state[] = {
    {"first", moments}, {"second", moments}, {"third", moments, elements, is_optional}};
constexpr StateTensor rmsprop_state[] = {
    {"first", wide, elements, is_optional}, {"second"}, {"third", wide, elements, is_optional}};
constexpr StateTensor adagrad_state[] = {{"second"}};
constexpr StateTensor lion_state[] = {{"first", moments}};
constexpr StateTensor nadam_state[] = {{"first", moments}, {"second", moments}};
constexpr StateTensor adafactor_state[] = {{"first", wide, lines}, {"second", wide, lines}};
constexpr StateTensor muon_state[] = {{"first"}};

constexpr Description all[] = {
    {Kind::sgd, "SGD", "", sgd_state, Sharing::elements, true, true, options_of<SgdOptions>,
     make<SGD, SgdGroup, Kind::sgd>},
    {Kind::adam, "Adam", "", adam_state, Sharing::elements, true, true, options_of<AdamOptions>,
     make<Adam, AdamGroup, Kind::adam>},
    {Kind::adamw, "AdamW", "adamw", adam_state, Sharing::elements, true, true,
     options_of<AdamOptions>, make<AdamW, AdamGroup, Kind::adamw>},
    {Kind::rmsprop, "RMSprop", "", rmsprop_state, Sharing::elements, false, true,
     options_of<RmspropOptions>, make<RMSprop, RmspropGroup, Kind::rmsprop>},
    {Kind::adagrad, "Adagrad", "", adagrad_state, Sharing::elements, false, false,
     options_of<AdagradOptions>, make<Adagrad, AdagradGroup, Kind::adagrad>},
    {Kind::lion, "Lion", "lion", lion_state, Sharing::elements, false, true,
     options_of<LionOptions>, make<Lion, LionGroup, Kind::lion>},
    {Kind::nadam, "NAdam", "nadam", nadam_state, Sharing::elements, false, true,
     options_of<NadamOptions>, make<NAdam, NadamGroup, Kind::nadam>},
    {Kind::adafactor, "Adafactor", "adafactor", adafactor_state, Sharing::none, false, false,
     options_of<AdafactorOptions>, make<Adafactor, AdafactorGroup, Kind::adafactor>},
    {Kind::muon, "Muon", "muon", muon_state, Sharing::parameters, true, true,
     options_of<MuonOptions>, make<Muon, MuonGroup, Kind::muon>},
};

std::vector<std::string> texts_of(bool (*has)(const Description&),
                                  std::string_view (*text)(const Description&)) {
  std::vector<std::string> texts;
  for (const Description& one : all) {
    if (has(one) && !text(one).empty()) texts.emplace_back(text(one));
  }
  return texts;
}

}  // namespace

bool Description::takes(std::string_view option) const {
  const std::vector<std::string> known = options();
  return std::find(known.begin(), known.end(), option) != known.end();
}

std::span<const Description> catalog() { return all; }

const Description& describe(Kind kind) {
  return *std::find_if(std::begin(all), std::end(all),
                       [kind](const Description& one) { return one.kind == kind; });
}

const Description& find_optimizer(std::string_view name) {
  for (const Description& one : all) {
    if (one.name == name) return one;
  }
  fail("optimizer", {.argument = "name",
                     .expected = names_of([](const Description&) { return true; }, "or"),
                     .found = "'" + std::string(name) + "'"});
}

std::unique_ptr<Optimizer> make_muon(const std::vector<NamedGroup>& matrices,
                                     const std::vector<NamedGroup>& others) {
  return std::make_unique<Muon>(groups_of<MuonGroup>("Muon", matrices),
                                groups_of<AdamGroup>("AdamW", others));
}

std::string names_of(bool (*has)(const Description&), std::string_view word) {
  return listed(texts_of(has, [](const Description& one) { return std::string_view(one.name); }),
                word);
}

std::string choices_of(bool (*has)(const Description&), std::string_view word) {
  return listed(texts_of(has, [](const Description& one) { return one.choice; }), word);
}

double state_bytes(Kind kind, DType moments) {
  double bytes = 0;
  for (const StateTensor& one : describe(kind).state) {
    if (one.size != StateTensor::Size::elements || one.is_optional) continue;
    bytes +=
        static_cast<double>(size_of(one.type == StateTensor::Type::moments ? moments : DType::f32));
  }
  return bytes;
}

}  // namespace binade::optim
