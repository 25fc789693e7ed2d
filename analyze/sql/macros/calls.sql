-- Functions of CPython 3.10 to 3.15 that pass a call on to the function that was meant: calls of any object, of C
-- functions and of types, and operations of the abstract object layer. (Those of is_frame_setup do so too.)
CREATE OR REPLACE TEMP MACRO is_passing_on(name) AS regexp_matches(name, '^_?(?:'
    || 'Py(?:Object|Vectorcall|CFunction|Eval)_(?:Vectorcall|Call|FastCall|MakeTpCall|EvalFrame)\w*'
    || '|PyObject_(?:Get|Set|Del)(?:Item|Attr)\w*|PyObject_Generic(?:Get|Set)Attr\w*|PyObject_GetMethod'
    || '|PyObject_(?:RichCompare|RichCompareBool|GetIter|IsTrue|Str|Repr|Format|Hash|Size)|PyIter_Next|Py_Dealloc'
    || '|PyNumber_\w+|PySequence_(?:Contains|(?:Get|Set)(?:Item|Slice)|Concat|Repeat)|binary_i?op1?|ternary_i?op'
    || '|PyFunction_FastCallDict|PyFrame_New\w*|call_function|do_call_core|trampoline_call'
    || '|cfunction_(?:call|vectorcall)\w*|method_vectorcall\w*|(?:class)?methoddescr_call|wrapper(?:descr)?_\w*call'
    || '|Py_(?:VectorCall|BuiltinCall|CallBuiltin)\w*_StackRef\w*|PyCallMethodDescriptor\w*_StackRef'
    || '|vectorcall_\w+|object_vacall|type_(?:call|vectorcall)|slot_(?:tp|nb|sq|mp|am)_\w+|wrap_\w+)$');

-- Functions of CPython 3.10 to 3.15 that make, fill or clear the frame of a Python function that is called.
CREATE OR REPLACE TEMP MACRO is_frame_setup(name) AS regexp_matches(name, '^_?(?:'
    || 'PyEval_(?:Vector|MakeFrameVector)|PyEval_?Frame(?:PushAndInit\w*|ClearAndPop)|PyFunction_Vectorcall'
    || '|PyFrame_(?:Initialize|Push\w*|Clear|ClearExceptCode|ClearLocals)|PyThreadState_(?:Push|Pop)Frame'
    || '|initialize_locals|clear_(?:thread|gen)_frame|frame_dealloc|function_code_fastcall)$');

-- Functions that free an object. Frames below them were kept by that object, such as an exception.
CREATE OR REPLACE TEMP MACRO is_freeing(name) AS regexp_matches(name, '(?:_dealloc|_clear|_finalize)$');

-- Functions that no program can call: where the bytecode loop calls them, it frees an operand or handles an exception.
CREATE OR REPLACE TEMP MACRO is_for_loop(name) AS regexp_matches(name, '^_?(?:'
    || '\w*dealloc|Py_Dealloc|PyObject_(?:Free|GC_Del)'
    || '|PyTraceBack_Here|PyErr_\w+|PyException_\w+|PyFrame_BlockSetup)$');

-- Functions that the bytecode loop calls to pack and unpack arguments, and to free them.
CREATE OR REPLACE TEMP MACRO is_for_arguments(name) AS regexp_matches(name, '^_?(?:'
    || 'tupledealloc|dict_dealloc|list_dealloc|free_keys_object|Py(?:Object|Mem)_(?:Free|Malloc)|PyStack_\w+)$');

-- Functions that call C functions, and nothing else.
CREATE OR REPLACE TEMP MACRO is_calling_c(name) AS regexp_matches(name, '^(?:'
    || 'cfunction_(?:call|vectorcall)\w*|method_vectorcall_[A-Z]\w*|(?:class)?methoddescr_call'
    || '|_Py_BuiltinCall\w*_StackRef|_PyCallMethodDescriptor\w*_StackRef)$');

-- Functions in which a program or a thread begins.
CREATE OR REPLACE TEMP MACRO is_beginning(name) AS name IN ('_start', '__libc_start_main', '__libc_start_call_main',
    'main', 'clone', '__clone', 'clone3', '__clone3', 'start_thread');

-- Functions that CPython runs at the end of a call, whatever was called (3.10: of every call).
CREATE OR REPLACE TEMP MACRO is_checking(name) AS name IN ('_Py_CheckFunctionResult', 'PyThreadState_Get');
