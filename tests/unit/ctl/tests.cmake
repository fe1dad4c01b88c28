rlb_unit_test(ctl/fetch LINK rlb::ctl)
rlb_unit_test(ctl/status_agent LINK rlb::ctl)
rlb_unit_test(ctl/table LINK rlb::ctl)
rlb_unit_test(ctl/words LINK rlb::ctl)
