rlb_unit_test(wire/json LINK rlb::wire)
rlb_unit_test(wire/resume_line LINK rlb::wire)
