rlb_unit_test(core/classes LINK rlb::core)
rlb_unit_test(core/decay LINK rlb::core)
rlb_unit_test(core/meter LINK rlb::core)
rlb_unit_test(core/resume LINK rlb::core)
