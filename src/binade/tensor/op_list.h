#pragma once

// BINADE_LIST(m, (a, b), (c, d), ...) is m(a, b), m(c, d), ...: for the parameters of
// tensor/ops.def, of which a line may have 16.
#define BINADE_LIST(m, ...) __VA_OPT__(BINADE_EXPAND(BINADE_LIST_STEP(m, __VA_ARGS__)))
#define BINADE_LIST_STEP(m, first, ...) \
  m first __VA_OPT__(, BINADE_LIST_AGAIN BINADE_PARENTHESES(m, __VA_ARGS__))
#define BINADE_LIST_AGAIN() BINADE_LIST_STEP
#define BINADE_PARENTHESES ()
// Each pass expands one more step.
#define BINADE_EXPAND(...) BINADE_EXPAND_4(BINADE_EXPAND_4(BINADE_EXPAND_4(__VA_ARGS__)))
#define BINADE_EXPAND_4(...) BINADE_EXPAND_1(BINADE_EXPAND_1(BINADE_EXPAND_1(__VA_ARGS__)))
#define BINADE_EXPAND_1(...) __VA_ARGS__

// A parameter as a declaration has it, without its default, and as an argument.
#define BINADE_DECLARED(type, name, ...) type name __VA_OPT__(= __VA_ARGS__)
#define BINADE_DEFINED(type, name, ...) type name
#define BINADE_ARGUMENT(type, name, ...) name
