foreach(noun arena base clock err file json latch latch_order list literal map nocase put slab split_map text)
  rlb_unit_test(base/${noun} LINK rlb::base)
endforeach()
# Its time is the test's.
rlb_unit_test(base/log OWN_PROGRAM LINK rlb::base -Wl,--wrap=clock_gettime)
set_tests_properties(unit.base.latch unit.base.latch_order PROPERTIES LABELS "unit;thread")
