#include "unwind/demangle.h"

#include <gtest/gtest.h>

namespace probing::unwind {
namespace {

TEST(Demangle, OnlyNamesOfCxxAreChanged) {
  EXPECT_EQ(Demangle("_ZN2at6native3addERKNS_6TensorE"), "at::native::add(at::Tensor const&)");
  EXPECT_EQ(Demangle("PyEval_EvalFrameDefault"), "PyEval_EvalFrameDefault");
  EXPECT_EQ(Demangle("_Zgarbage"), "_Zgarbage");
}

TEST(ShortName, ParametersResultsAndTemplateArgumentsAreLeftOut) {
  EXPECT_EQ(ShortName("at::native::add(at::Tensor const&)"), "at::native::add");
  EXPECT_EQ(ShortName("void at::native::add<float, 4>(at::Tensor&)"), "at::native::add<...>");
  EXPECT_EQ(ShortName("std::vector<int, std::allocator<int> >::push_back(int const&)"),
            "std::vector<...>::push_back");
  EXPECT_EQ(ShortName("at::(anonymous namespace)::wrapper_CPU_add(at::Tensor const&)"),
            "at::wrapper_CPU_add");
}

TEST(ShortName, LambdasAndOperatorsKeepTheirNames) {
  EXPECT_EQ(ShortName("c10::impl::run(int)::{lambda(int)#1}::operator()(int) const"),
            "c10::impl::run::{lambda}::operator()");
  EXPECT_EQ(ShortName("Thing::operator()(int) const"), "Thing::operator()");
  EXPECT_EQ(ShortName("bool operator<(A const&, B const&)"), "operator<");
  EXPECT_EQ(ShortName("operator new(unsigned long)"), "operator new");
  EXPECT_EQ(ShortName("std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char)"),
            "std::operator<<<...>");
}

TEST(ShortName, WhatIsNoCxxStaysAsItIs) {
  EXPECT_EQ(ShortName("PyObject_Call"), "PyObject_Call");
  EXPECT_EQ(ShortName("mkl_blas_avx2_sgemm"), "mkl_blas_avx2_sgemm");
  EXPECT_EQ(ShortName(""), "");
  EXPECT_EQ(ShortName("((((((((((("), "(((((((((((");
  EXPECT_EQ(ShortName("a<<<<<<"), "a<...>");
}

TEST(FitName, TheFunctionsOwnNameStays) {
  const std::string kernel =
      "void at::native::(anonymous namespace)::cpu_kernel_vec<false, float>(at::TensorIterator&, float)";
  EXPECT_EQ(FitName(kernel, 0), kernel);
  EXPECT_EQ(FitName(kernel, 200), kernel);
  EXPECT_EQ(FitName(kernel, 40), "at::native::cpu_kernel_vec<...>");
  EXPECT_EQ(FitName(kernel, 30), "...::cpu_kernel_vec<...>");
  EXPECT_EQ(FitName(kernel, 12), "..._vec<...>");
  EXPECT_EQ(FitName("a_plain_name_of_c_that_is_long", 14), "...hat_is_long");
  EXPECT_EQ(FitName("caf\xc3\xa9s", 5), "...s");
}

}  // namespace
}  // namespace probing::unwind
