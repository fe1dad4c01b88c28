rlb_unit_test(ctl/tree/tree_text LINK rlb::ctl)
